#include "simulated/backend.h"

#include <ATen/detail/PrivateUse1HooksInterface.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "base/error.h"
#include "device/allocation.h"
#include "simulated/allocator.h"
#include "simulated/autocast.h"
#include "simulated/capture.h"
#include "simulated/generator.h"
#include "simulated/graph.h"
#include "simulated/guard.h"
#include "simulated/hardware/pinned_memory.h"
#include "simulated/kernels.h"
#include "simulated/state.h"

namespace lowtide::simulated {
namespace {

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  void setCurrentDevice(c10::DeviceIndex index) const override {
    guard().setDevice(c10::Device(kDeviceType, index));
  }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override {
    setCurrentDevice(index);
    return 0;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex) const override { return 0; }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override {
    return default_generator();
  }
  at::Generator getNewGenerator(c10::DeviceIndex) const override { return make_generator(); }
  at::Device getDeviceFromPtr(void* data) const override {
    return state().memory.on_device(data) ? kDevice : at::Device(at::kCPU);
  }
  bool isPinnedPtr(const void* data) const override { return is_pinned(data); }
  at::Allocator* getPinnedMemoryAllocator() const override { return &pinned_allocator(); }

  /// The storage keeps what it has of the new bytes.
  void resizePrivateUse1Bytes(const c10::Storage& storage, std::size_t bytes) const override {
    c10::DataPtr data = allocator().allocate(bytes);
    const std::size_t kept = std::min(bytes, storage.nbytes());
    if (kept > 0) allocator().copy_data(data.get(), storage.data(), kept);
    storage.set_data_ptr_noswap(std::move(data));
    storage.set_nbytes(bytes);
  }
};

/// So that raw addresses which kernels give back to the CPU's allocator find their owner.
void own_host_addresses() {
  const Memory& memory = state().memory;
  new device::OwnedRange(memory.host_begin(), memory.bytes(), &release_on_host);
}

}  // namespace

void install(const Options& options) {
  if (is_installed()) throw InputError("the simulated device is installed already");
  if (options.bytes < 1) {
    throw InputError("the simulated device needs memory: give bytes of at least 1");
  }
  make_state(options.bytes, options.late, options.seed);
  own_host_addresses();
  c10::SetAllocator(kDeviceType, &allocator(), std::numeric_limits<std::uint8_t>::max());
  at::setHostAllocator(kDeviceType, &pinned_allocator());
  const c10::impl::DeviceGuardImplRegistrar registrar(kDeviceType, &guard());
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  register_kernels();
  register_graphs();
  register_autocast();
}

void reseed(std::uint64_t seed) {
  refuse_wait_in_capture("reseed()", std::nullopt);
  state().streams.reseed(seed);
}

std::int64_t launches() { return state().launches; }

void refuse_request(std::int64_t count) { state().memory.refuse_request(count); }

}  // namespace lowtide::simulated
