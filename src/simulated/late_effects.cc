#include "simulated/late_effects.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "simulated/capture.h"
#include "simulated/state.h"

namespace lowtide::simulated {
namespace {

/// What memory holds that was not written yet: not a number, or an index out of range.
constexpr int kUnwritten = 0xFF;

std::byte* host_data(const at::Tensor& tensor) {
  std::byte* const storage = state().memory.to_host(tensor.storage().mutable_data());
  return storage + tensor.storage_offset() * static_cast<std::int64_t>(tensor.itemsize());
}

std::unique_ptr<std::byte[]> copy_of(const std::byte* data, std::size_t bytes) {
  std::unique_ptr<std::byte[]> copy(new std::byte[bytes]);
  std::memcpy(copy.get(), data, bytes);
  return copy;
}

}  // namespace

LateEffects::LateEffects(StreamId stream)
    : stream_(stream), active_(state().streams.may_race() && capture_of(stream) == nullptr) {}

void LateEffects::will_write(const at::Tensor& tensor) {
  if (!active_ || tensor.numel() == 0) return;
  active_ = tensor.is_non_overlapping_and_dense();  // others may write what lies between
  if (!active_) return;
  std::byte* const data = host_data(tensor);
  const std::size_t bytes = tensor.nbytes();
  written_.push_back({tensor, data, bytes, copy_of(data, bytes)});
}

void LateEffects::has_made(const c10::Storage& storage) {
  if (active_ && storage.nbytes() > 0) made_.push_back(storage);
}

void LateEffects::defer() {
  const bool moved = std::ranges::any_of(written_, [](const Written& written) {
    return host_data(written.tensor) != written.data || written.tensor.nbytes() != written.bytes;
  });
  if (!active_ || moved) return;
  std::vector<std::shared_ptr<std::byte[]>> after;
  for (const Written& written : written_) after.push_back(copy_of(written.data, written.bytes));
  for (std::size_t i = 0; i < written_.size(); ++i) {
    const Written& written = written_[i];
    std::memcpy(written.data, written.before.get(), written.bytes);
    state().streams.copy(stream_, {written.data, after[i].get(), written.bytes, after[i]});
  }
  for (const c10::Storage& storage : made_) {
    std::byte* const data = state().memory.to_host(storage.mutable_data());
    const std::shared_ptr<std::byte[]> bytes = copy_of(data, storage.nbytes());
    std::memset(data, kUnwritten, storage.nbytes());
    state().streams.copy(stream_, {data, bytes.get(), storage.nbytes(), bytes});
  }
}

}  // namespace lowtide::simulated
