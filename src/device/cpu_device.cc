#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <torch/version.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <memory>

#include "base/machine_memory.h"
#include "device/block.h"
#include "device/device.h"
#include "device/generator_state.h"
#include "packing/packing.h"

namespace lowtide::device {
namespace {

at::CPUGeneratorImpl& generator() {
  return *at::check_generator<at::CPUGeneratorImpl>(at::detail::getDefaultCPUGenerator());
}

/// The processor's name in /proc/cpuinfo.
std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "CPU";
}

struct OwnedBlock {
  explicit OwnedBlock(Bytes bytes) : block(bytes), range(block.data(), block.bytes(), &keep) {}
  Block block;
  OwnedRange range;
};

/// Memory of the system, with large pages if it has them: they make the first access and the
/// address translation cheaper.
struct OwnedScratch {
  explicit OwnedScratch(const MemorySource::Grant& grant, Bytes bytes)
      : memory(grant.data, grant.release), range(grant.data, bytes, &keep) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    auto size = static_cast<std::size_t>(bytes);
    void* first = grant.data;
    if (std::align(page, page, first, size) != nullptr) {
      madvise(first, size / page * page, MADV_HUGEPAGE);
    }
  }

  std::unique_ptr<void, MemorySource::Release> memory;
  OwnedRange range;
};

struct Service {
  Service(MemorySource& source, MemorySource& unordered) : thread(source), workers(unordered) {}
  Serving thread;
  ServingWorkers workers;
};

class CpuDevice final : public ComputeDevice {
 public:
  std::string name() const override {
    return fmt::format("{} ({}), {} threads, LibTorch {}", processor(), at::get_cpu_capability(),
                       at::get_num_threads(), TORCH_VERSION);
  }

  c10::Device torch_device() const override { return c10::Device(c10::DeviceType::CPU); }

  bool is_host_memory() const override { return true; }

  Bytes alignment() const override { return kArenaAlignment; }

  std::shared_ptr<std::byte> allocate_block(Bytes bytes) const override {
    auto owned = std::make_shared<OwnedBlock>(bytes);
    std::byte* const data = owned->block.data();
    return {std::move(owned), data};
  }

  std::shared_ptr<std::byte> allocate_scratch(Bytes bytes) const override {
    const Bytes some = std::max<Bytes>(bytes, 1);
    auto owned =
        std::make_shared<OwnedScratch>(system().allocate(static_cast<std::size_t>(some)), some);
    auto* const data = static_cast<std::byte*>(owned->memory.get());
    return {std::move(owned), data};
  }

  MemorySource& system() const override { return system_source(); }

  std::shared_ptr<void> serve(MemorySource& source, MemorySource& unordered) const override {
    return std::make_shared<Service>(source, unordered);
  }

  const AllocationCounters& count_allocations() const override {
    return device::count_allocations();
  }

  void reset_allocation_peaks() const override { device::reset_allocation_peaks(); }

  Bytes generator_state_bytes() const override { return cpu_generator_state_bytes(); }

  void save_generator(std::byte* state) const override { save_cpu_generator(generator(), state); }

  void restore_generator(const std::byte* state) const override {
    restore_cpu_generator(generator(), state);
  }

  void synchronize() const override {}

  std::unique_ptr<WorkTimer> work_timer() const override { return clock_timer(); }

  DeviceMemory memory() const override {
    const MachineMemory memory = machine_memory();
    return {memory.total, memory.free};
  }
};

}  // namespace

const ComputeDevice& cpu_device() {
  static const CpuDevice device;
  return device;
}

}  // namespace lowtide::device
