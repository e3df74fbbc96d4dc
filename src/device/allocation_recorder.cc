#include "device/allocation_recorder.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace lowtide::device {
namespace {

constexpr std::int32_t kAlive = -1;

}  // namespace

/// The origin of recorded memory, which may outlive its recorder.
struct AllocationRecorder::Followed {
  struct Origin {
    Release release;               ///< of the system
    AllocationRecorder* recorder;  ///< null after it is gone or cleared
    std::size_t request;
    std::unique_ptr<OwnedRange> range;
  };
  std::mutex mutex;
  std::unordered_map<void*, Origin> origins;

  void forget(const AllocationRecorder* recorder) {
    for (auto& [data, origin] : origins) {
      if (origin.recorder == recorder) origin.recorder = nullptr;
    }
  }
};

AllocationRecorder::Followed& AllocationRecorder::followed() {
  static Followed* const followed = new Followed;  // outlives every tensor of the program
  return *followed;
}

AllocationRecorder::~AllocationRecorder() { clear(); }

MemorySource::Grant AllocationRecorder::allocate(std::size_t bytes) {
  const Grant grant = system_.allocate(bytes);
  const std::scoped_lock lock(followed().mutex);
  followed().origins[grant.data] = {
      grant.release, this, requests_.size(),
      std::make_unique<OwnedRange>(grant.data, static_cast<Bytes>(bytes),
                                   &AllocationRecorder::release)};
  requests_.push_back({grant.data, static_cast<Bytes>(bytes), now_++, kAlive});
  live_bytes_ += static_cast<Bytes>(bytes);
  peak_bytes_ = std::max(peak_bytes_, live_bytes_);
  return {grant.data, &AllocationRecorder::release};
}

void AllocationRecorder::release(void* data) {
  const std::scoped_lock lock(followed().mutex);
  const auto node = followed().origins.extract(data);
  const Followed::Origin& origin = node.mapped();
  if (AllocationRecorder* recorder = origin.recorder) {
    Request& request = recorder->requests_[origin.request];
    request.end = recorder->now_++;
    recorder->live_bytes_ -= request.bytes;
  }
  origin.release(data);
}

std::vector<AllocationRecorder::Request> AllocationRecorder::requests() const {
  const std::scoped_lock lock(followed().mutex);
  std::vector<Request> result = requests_;
  for (Request& request : result) {
    if (request.end == kAlive) request.end = now_;
  }
  return result;
}

std::int64_t AllocationRecorder::count() const {
  const std::scoped_lock lock(followed().mutex);
  return static_cast<std::int64_t>(requests_.size());
}

Bytes AllocationRecorder::live_bytes() const {
  const std::scoped_lock lock(followed().mutex);
  return live_bytes_;
}

Bytes AllocationRecorder::peak_bytes() const {
  const std::scoped_lock lock(followed().mutex);
  return peak_bytes_;
}

void AllocationRecorder::clear() {
  const std::scoped_lock lock(followed().mutex);
  followed().forget(this);
  requests_.clear();
  now_ = 0;
  live_bytes_ = peak_bytes_ = 0;
}

}  // namespace lowtide::device
