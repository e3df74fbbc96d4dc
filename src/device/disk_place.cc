#include "device/disk_place.h"

#include <fmt/format.h>

#include <utility>

#include "base/at.h"
#include "base/error.h"
#include "device/staged_medium.h"
#include "slower/lanes.h"
#include "slower/measure.h"

namespace lowtide::device {

DiskPlace::DiskPlace(const ComputeDevice& device, std::filesystem::path folder)
    : device_(device), disk_(std::move(folder)) {
  if (!device.is_host_memory()) return;
  throw InputError(fmt::format("the memory of {} is the host's, from which slower::Disk copies",
                               device.torch_device().str()));
}

std::string DiskPlace::medium() const {
  return fmt::format("{} from {}", disk_.medium(), device_.name());
}

slower::LaneSpeed DiskPlace::measured() const {
  const Bytes bytes = disk_.bytes_to_measure();
  const auto store = open(bytes);
  const std::shared_ptr<std::byte> memory = device_.allocate_scratch(bytes);
  return slower::measure(*store, {memory.get(), at(bytes)}, slower::steady_seconds);
}

std::unique_ptr<slower::Store> DiskPlace::open(Bytes bytes) const {
  constexpr int kWorkers = 2 * slower::Disk::kThreadsPerLane;
  return std::make_unique<slower::LaneStore>(
      std::make_unique<StagedMedium>(device_.torch_device(), disk_.reserve(bytes), kWorkers),
      slower::Disk::kThreadsPerLane);
}

}  // namespace lowtide::device
