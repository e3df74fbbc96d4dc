#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "device/allocation.h"

namespace lowtide::device {

/// Serves from the system and writes down every request and release in order.
class AllocationRecorder final : public MemorySource {
 public:
  /// One request. Times count requests and releases together; `end` is `events()` while it lives.
  struct Request {
    const void* data;
    Bytes bytes;
    std::int32_t begin;
    std::int32_t end;
  };

  AllocationRecorder() = default;
  ~AllocationRecorder() override;
  AllocationRecorder(const AllocationRecorder&) = delete;
  AllocationRecorder& operator=(const AllocationRecorder&) = delete;

  Grant allocate(std::size_t bytes) override;

  /// The requests so far, those that still live with `end` at the present.
  std::vector<Request> requests() const;
  std::int64_t count() const;
  Bytes live_bytes() const;
  Bytes peak_bytes() const;
  /// Forgets what was recorded; memory that still lives is no longer followed.
  void clear();

 private:
  struct Followed;
  static void release(void* data);
  static Followed& followed();

  std::vector<Request> requests_;
  std::int32_t now_ = 0;
  Bytes live_bytes_ = 0;
  Bytes peak_bytes_ = 0;
};

}  // namespace lowtide::device
