#include "simulated/simulated_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/error.h"
#include "device/generator_state.h"
#include "simulated/allocator.h"
#include "simulated/capture.h"
#include "simulated/generator.h"
#include "simulated/state.h"

namespace lowtide::simulated {
namespace {

/// A block that only its owner releases, whatever ops do with addresses in it.
std::shared_ptr<std::byte> kept_block(Bytes bytes) {
  refuse_unsafe_in_capture("an allocation outside the graph's pool");
  std::byte* const data = state().memory.allocate_kept(std::max<Bytes>(bytes, 1), current_stream());
  return {data, [](std::byte* block) { state().memory.release_kept(block); }};
}

struct DeviceService {
  DeviceService(device::MemorySource& source, device::MemorySource& unordered)
      : thread(source), on_host(unordered), workers(on_host) {}
  DeviceServing thread;
  OnHost on_host;
  device::ServingWorkers workers;
};

/// A state may be kept in the device's memory.
std::byte* readable(const std::byte* data) {
  const Memory& memory = state().memory;
  return memory.on_device(data) ? memory.to_host(data) : const_cast<std::byte*>(data);
}

at::CPUGeneratorImpl& drawn_generator() {
  static const at::Generator generator = host_generator(default_generator());
  return *at::check_generator<at::CPUGeneratorImpl>(generator);
}

class SimulatedDevice final : public device::ComputeDevice {
 public:
  std::string name() const override {
    return fmt::format("simulated device of {} on {}", format_bytes(state().memory.bytes()),
                       device::cpu_device().name());
  }

  c10::Device torch_device() const override { return kDevice; }

  std::shared_ptr<std::byte> allocate_block(Bytes bytes) const override {
    std::shared_ptr<std::byte> block = kept_block(bytes);
    state().streams.finish(current_stream());  // its work for who had the memory before
    std::memset(readable(block.get()), 0, static_cast<std::size_t>(bytes));
    return block;
  }

  std::shared_ptr<std::byte> allocate_scratch(Bytes bytes) const override {
    return kept_block(bytes);
  }

  bool is_host_memory() const override { return false; }

  Bytes alignment() const override { return kBlockAlignment; }

  device::MemorySource& system() const override { return own_memory(); }

  const device::AllocationCounters& count_allocations() const override {
    return state().memory.counters();
  }

  void reset_allocation_peaks() const override {
    device::AllocationCounters& counters = state().memory.counters();
    counters.taken.reset_peak();
    counters.unserved.reset_peak();
  }

  std::shared_ptr<void> serve(device::MemorySource& source,
                              device::MemorySource& unordered) const override {
    return std::make_shared<DeviceService>(source, unordered);
  }

  Bytes generator_state_bytes() const override { return device::cpu_generator_state_bytes(); }

  void save_generator(std::byte* state) const override {
    refuse_in_own_capture("a read of the generator's state");
    device::save_cpu_generator(drawn_generator(), readable(state));
  }

  void restore_generator(const std::byte* state) const override {
    refuse_in_own_capture("a write of the generator's state");
    device::restore_cpu_generator(drawn_generator(), readable(state));
  }

  device::DeviceMemory memory() const override {
    return {state().memory.bytes(), state().memory.free_bytes()};
  }

  void synchronize() const override {
    refuse_wait_in_capture("a wait for the device", std::nullopt);
    state().streams.finish_all();
    state().streams.drop_owners();
  }
};

}  // namespace

const device::ComputeDevice& simulated_device() {
  if (!is_installed()) {
    throw Error("no simulated device is installed: call lowtide.pytorch.simulated.install() first");
  }
  static const SimulatedDevice device;
  return device;
}

}  // namespace lowtide::simulated
