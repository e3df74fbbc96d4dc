#include "slower/buffers.h"

namespace lowtide::slower {

Buffers::Buffers(int count, Bytes piece_bytes) : piece_bytes_(piece_bytes) {
  for (int i = 0; i < count; ++i) {
    pieces_.push_back(aligned_memory(piece_bytes));
    free_.push_back(pieces_.back().get());
  }
}

Buffers::Lease Buffers::take() {
  std::unique_lock lock(mutex_);
  given_back_.wait(lock, [&] { return !free_.empty(); });
  std::byte* const data = free_.back();
  free_.pop_back();
  return {*this, data};
}

void Buffers::give_back(std::byte* data) {
  const std::lock_guard lock(mutex_);
  free_.push_back(data);
  given_back_.notify_one();
}

}  // namespace lowtide::slower
