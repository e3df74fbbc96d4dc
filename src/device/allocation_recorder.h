#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "device/allocation.h"

namespace lowtide::device {

/// Serves requests from the framework's own allocator for a device, and records every request and
/// release in order.
class AllocationRecorder final : public MemorySource {
 public:
  /// One request. Times count requests and releases together; a live one ends now.
  struct Request {
    const void* data;
    Bytes bytes;
    std::int32_t begin;
    std::int32_t end;
  };

  /// `system` must live until the process ends.
  explicit AllocationRecorder(MemorySource& system = system_source()) : system_(system) {}
  ~AllocationRecorder() override;
  AllocationRecorder(const AllocationRecorder&) = delete;
  AllocationRecorder& operator=(const AllocationRecorder&) = delete;

  Grant allocate(std::size_t bytes) override;

  /// The requests so far; a live one has the current time as its `end`.
  std::vector<Request> requests() const;
  std::int64_t count() const;
  Bytes live_bytes() const;
  Bytes peak_bytes() const;
  /// Deletes the record; live memory is no longer tracked.
  void clear();

 private:
  struct Followed;
  static void release(void* data);
  static Followed& followed();

  MemorySource& system_;
  std::vector<Request> requests_;
  std::int32_t now_ = 0;
  Bytes live_bytes_ = 0;
  Bytes peak_bytes_ = 0;
};

}  // namespace lowtide::device
