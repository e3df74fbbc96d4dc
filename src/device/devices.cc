#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <vector>

#include "base/error.h"
#include "device/device.h"

namespace lowtide::device {
namespace {

class KnownDevices {
 public:
  static KnownDevices& instance() {
    static KnownDevices* const known = new KnownDevices;  // until the process ends
    return *known;
  }

  void add(const ComputeDevice& device) {
    const std::scoped_lock lock(mutex_);
    std::erase_if(devices_, [&](const ComputeDevice* known) {
      return known->torch_device() == device.torch_device();
    });
    devices_.push_back(&device);
  }

  const ComputeDevice& find(c10::Device device) {
    const std::scoped_lock lock(mutex_);
    const auto found = std::ranges::find_if(
        devices_, [&](const ComputeDevice* known) { return is(known->torch_device(), device); });
    if (found != devices_.end()) return **found;
    std::vector<std::string> names;
    for (const ComputeDevice* known : devices_) names.push_back(known->torch_device().str());
    throw InputError(
        fmt::format("the model is on the device {}, and plans are run on {} alone: move the model "
                    "and its inputs there, or save the graph with lowtide.capture to plan it only",
                    device.str(), fmt::join(names, " and ")));
  }

 private:
  /// Without an index, "cuda" or "cpu" is the first of its type.
  static bool is(c10::Device known, c10::Device wanted) {
    return known.type() == wanted.type() &&
           (!wanted.has_index() || !known.has_index() || known.index() == wanted.index());
  }

  KnownDevices() : devices_{&cpu_device()} {}

  std::mutex mutex_;
  std::vector<const ComputeDevice*> devices_;
};

}  // namespace

void add_device(const ComputeDevice& device) { KnownDevices::instance().add(device); }

const ComputeDevice& device_of(c10::Device device) { return KnownDevices::instance().find(device); }

}  // namespace lowtide::device
