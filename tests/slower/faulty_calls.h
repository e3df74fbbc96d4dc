#pragma once

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <random>
#include <thread>

#include "slower/file_calls.h"

namespace lowtide::slower {

/// What goes wrong in a call.
enum class Fault : std::uint8_t {
  none,
  error,        ///< it fails with `code`
  part,         ///< it moves a part of the bytes
  interrupted,  ///< EINTR, once
  nothing,      ///< it moves nothing, as at the end of the file
  flipped,      ///< one bit arrives changed
  lie,          ///< it says that it moved all, and did not
  elsewhere,    ///< it moves another page of the file
};

/// The system's calls, with the faults that a test asks for. Thread-safe.
class FaultyCalls final : public FileCalls {
 public:
  /// So many calls have the fault, -1: all until another is set, from now on or `after` so many.
  void fail_writes(Fault fault, int times = 1, int code = EIO, int after = 0) {
    set(writes_, {fault, times, code, after});
  }
  void fail_reads(Fault fault, int times = 1, int code = EIO, int after = 0) {
    set(reads_, {fault, times, code, after});
  }
  /// Calls take a random time up to this many microseconds.
  void delay(int most_microseconds) { most_microseconds_ = most_microseconds; }
  /// Each call may be cut short or interrupted, at random.
  void be_choppy() { is_choppy_ = true; }
  /// The first write fails with EINVAL, as where a file system does not pass the page cache by.
  void refuse_direct() { fail_writes(Fault::error, 1, EINVAL); }

  ssize_t pread(int file, void* into, std::size_t bytes, off_t offset) override {
    const Pending fault = next(reads_);
    switch (fault.kind) {
      case Fault::error: return failed(fault.code);
      case Fault::interrupted: return failed(EINTR);
      case Fault::nothing: return 0;
      case Fault::part: return part_of(system_.pread(file, into, bytes, offset));
      case Fault::elsewhere: {
        const off_t other = offset >= kBytesElsewhere ? offset - kBytesElsewhere
                                                      : offset + kBytesElsewhere;
        return system_.pread(file, into, bytes, other);
      }
      case Fault::lie: std::memset(into, 0x5A, bytes); return static_cast<ssize_t>(bytes);
      case Fault::flipped: {
        const ssize_t moved = system_.pread(file, into, bytes, offset);
        static_cast<char*>(into)[bytes / 2] ^= 4;
        return moved;
      }
      case Fault::none: break;
    }
    return system_.pread(file, into, bytes, offset);
  }

  ssize_t pwrite(int file, const void* data, std::size_t bytes, off_t offset) override {
    const Pending fault = next(writes_);
    switch (fault.kind) {
      case Fault::error: return failed(fault.code);
      case Fault::interrupted: return failed(EINTR);
      case Fault::nothing: return 0;
      case Fault::part: return part_of(system_.pwrite(file, data, bytes, offset));
      case Fault::lie: return static_cast<ssize_t>(bytes);
      default: break;
    }
    return system_.pwrite(file, data, bytes, offset);
  }

 private:
  static constexpr off_t kBytesElsewhere = 4096;

  struct Pending {
    Fault kind = Fault::none;
    int times = 0;
    int code = 0;
    int after = 0;
  };

  static ssize_t failed(int code) {
    errno = code;
    return -1;
  }
  /// No whole pages, as a signal may leave it. What is moved a second time does no harm.
  static ssize_t part_of(ssize_t moved) { return moved > 8192 ? moved / 3 : moved; }

  void set(Pending& pending, const Pending& fault) {
    const std::lock_guard lock(mutex_);
    pending = fault;
  }

  Pending next(Pending& pending) {
    std::unique_lock lock(mutex_);
    const int microseconds = most_microseconds_ > 0
                                 ? static_cast<int>(random_() % unsigned(most_microseconds_))
                                 : 0;
    Pending fault;
    if (pending.times != 0 && pending.after-- <= 0) {
      fault = pending;
      if (pending.times > 0) --pending.times;
    } else if (is_choppy_) {
      const auto draw = random_() % 4;
      fault.kind = draw == 0 ? Fault::interrupted : draw == 1 ? Fault::part : Fault::none;
    }
    lock.unlock();
    if (microseconds > 0) std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
    return fault;
  }

  FileCalls& system_ = system_file_calls();
  std::mutex mutex_;
  Pending writes_;
  Pending reads_;
  int most_microseconds_ = 0;
  bool is_choppy_ = false;
  std::mt19937_64 random_{1};
};

}  // namespace lowtide::slower
