#include "cuda/cuda_device.h"

#include <ATen/Context.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zero.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <fmt/format.h>
#include <torch/headeronly/version.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include "cuda/allocator_proxy.h"
#include "cuda/counted_allocations.h"
#include "cuda/lasting_workspaces.h"
#include "cuda/served_thread.h"

namespace lowtide::cuda {
namespace {

/// Of the caching allocator's blocks.
constexpr Bytes kBlockAlignment = 512;

class NativeMemory final : public device::MemorySource {
 public:
  explicit NativeMemory(c10::Device device) : device_(device) {}
  Grant allocate(std::size_t bytes) override {
    const c10::DeviceGuard guard(device_);
    return AllocatorProxy::instance().from_native(bytes);
  }

 private:
  c10::Device device_;
};

struct GpuService {
  GpuService(device::MemorySource& source, c10::Stream stream) : thread(source, stream) {}
  AllocatorProxy::InSlot proxy;
  ServedThread thread;
};

/// All of a CUDA generator's state. It lies on the host and moves on when a kernel is launched, so
/// no work has to be waited for.
struct GeneratorState {
  std::uint64_t seed;
  std::uint64_t offset;
};

class CudaDevice final : public device::ComputeDevice {
 public:
  CudaDevice(c10::DeviceIndex index, const std::string& model)
      : device_(c10::DeviceType::CUDA, index),
        name_(fmt::format("{}, LibTorch {}", model, TORCH_VERSION)),
        memory_(device_) {}

  std::string name() const override { return name_; }
  c10::Device torch_device() const override { return device_; }
  bool is_host_memory() const override { return false; }
  Bytes alignment() const override { return kBlockAlignment; }

  std::shared_ptr<std::byte> allocate_block(Bytes bytes) const override {
    std::shared_ptr<std::byte> block = allocate_scratch(bytes);
    at::for_blob(block.get(), {bytes})
        .options(at::TensorOptions().dtype(at::kByte).device(device_))
        .target_device(device_)
        .make_tensor()
        .zero_();
    devices().synchronizeStream(stream());  // another may be the first to use it
    return block;
  }

  std::shared_ptr<std::byte> allocate_scratch(Bytes bytes) const override {
    const c10::DeviceGuard guard(device_);
    const OwnRequest own;
    auto block = std::make_shared<c10::DataPtr>(AllocatorProxy::instance().native().allocate(
        static_cast<std::size_t>(std::max<Bytes>(bytes, 1))));
    auto* const data = static_cast<std::byte*>(block->get());
    return {std::move(block), data};
  }

  device::MemorySource& system() const override { return memory_; }

  /// No worker threads ask for memory of a GPU.
  std::shared_ptr<void> serve(device::MemorySource& source, device::MemorySource&) const override {
    const c10::Stream served = stream();
    take_lasting_workspaces(served);
    return std::make_shared<GpuService>(source, served);
  }

  const device::AllocationCounters& count_allocations() const override { return counted(); }

  void reset_allocation_peaks() const override {
    counted().taken.reset_peak();
    counted().unserved.reset_peak();
  }

  Bytes lasting_bytes() const override { return lasting_workspace_bytes(); }
  void take_lasting() const override { take_lasting_workspaces(stream()); }

  Bytes generator_state_bytes() const override { return sizeof(GeneratorState); }

  void save_generator(std::byte* state) const override {
    at::Generator generator = at::globalContext().defaultGenerator(device_);
    const std::scoped_lock lock(generator.mutex());
    const GeneratorState now{generator.current_seed(), generator.get_offset()};
    std::memcpy(state, &now, sizeof now);
  }

  void restore_generator(const std::byte* state) const override {
    GeneratorState then;
    std::memcpy(&then, state, sizeof then);
    at::Generator generator = at::globalContext().defaultGenerator(device_);
    const std::scoped_lock lock(generator.mutex());
    generator.set_current_seed(then.seed);  // sets the offset to 0
    generator.set_offset(then.offset);
  }

  device::DeviceMemory memory() const override {
    return device::memory_told_by(AllocatorProxy::instance().native(), device_.index());
  }

  void synchronize() const override { devices().synchronizeDevice(device_.index()); }

 private:
  static const c10::impl::DeviceGuardImplInterface& devices() {
    return *c10::impl::getDeviceGuardImpl(c10::DeviceType::CUDA);
  }

  c10::Stream stream() const { return devices().getStream(device_); }

  device::AllocationCounters& counted() const {
    return counted_allocations(AllocatorProxy::instance().native(), device_.index());
  }

  c10::Device device_;
  std::string name_;
  mutable NativeMemory memory_;
};

}  // namespace

const device::ComputeDevice& cuda_device(c10::DeviceIndex index, const std::string& model) {
  static std::mutex mutex;
  static auto* const devices =
      new std::map<c10::DeviceIndex, CudaDevice>;  // until the process ends
  AllocatorProxy::instance();                      // refuses where it cannot work
  const std::scoped_lock lock(mutex);
  return devices->try_emplace(index, index, model).first->second;
}

}  // namespace lowtide::cuda
