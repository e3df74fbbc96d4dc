#include "cuda/cuda_device.h"

#include <ATen/ATen.h>
#include <c10/core/StreamGuard.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "base/error.h"
#include "device/allocation_recorder.h"
#include "device/planned_source.h"
#include "device/replayed_draw.h"
#include "fake_c10_cuda.h"
#include "fake_gpu.h"

namespace lowtide::cuda {
namespace {

using ::testing::HasSubstr;

const device::ComputeDevice& gpu(c10::DeviceIndex index = 0) {
  return cuda_device(index, "Fake GPU, CUDA 13.0");
}

at::TensorOptions on_gpu() { return at::TensorOptions().device(at::kCUDA).dtype(at::kFloat); }

bool is_aligned(const void* data) { return reinterpret_cast<std::uintptr_t>(data) % 512 == 0; }

TEST(CudaDevice, HasANameAndAPlace) {
  EXPECT_THAT(gpu().name(), HasSubstr("Fake GPU, CUDA 13.0, LibTorch "));
  EXPECT_EQ(gpu(1).torch_device(), at::Device(at::kCUDA, 1));
  EXPECT_EQ(&gpu(1), &gpu(1));
  EXPECT_FALSE(gpu().is_host_memory());
  EXPECT_EQ(gpu().alignment(), 512);
}

TEST(CudaDevice, BlocksAreOfTheCachingAllocatorAndZero) {
  const std::size_t before = FakeNative::instance().live_blocks();
  {
    const auto block = gpu().allocate_block(1000);
    EXPECT_EQ(FakeNative::instance().live_blocks(), before + 1);
    EXPECT_TRUE(is_aligned(block.get()));
    EXPECT_TRUE(std::all_of(block.get(), block.get() + 1000,
                            [](std::byte b) { return b == std::byte{0}; }));
    const auto scratch = gpu().allocate_scratch(0);
    EXPECT_TRUE(is_aligned(scratch.get()));
  }
  EXPECT_EQ(FakeNative::instance().live_blocks(), before);
}

TEST(CudaDevice, ASourceServesOpsWhileItServes) {
  const at::Tensor x = at::ones({8, 8}, on_gpu());
  device::AllocationRecorder source(gpu().system()), unordered(gpu().system());
  at::Tensor y;
  {
    const auto serving = gpu().serve(source, unordered);
    y = at::mm(x, x);
    EXPECT_EQ(source.count(), 1);
    EXPECT_EQ(source.live_bytes(), 256);
  }
  at::mm(x, x);
  EXPECT_EQ(source.count(), 1);
  EXPECT_EQ(at::from_blob(y.data_ptr(), {8, 8}).sum().item<float>(), 512);
  y.reset();
  EXPECT_EQ(source.live_bytes(), 0);
  EXPECT_EQ(fake_slot().load(), &FakeNative::instance());
}

TEST(CudaDevice, APlannedSourceServesOpsAtTheirAddresses) {
  const at::Tensor x = at::ones({8, 8}, on_gpu());
  const auto block = gpu().allocate_block(4096);
  const std::vector<device::Slot> slots = {{.data = block.get() + 1024, .bytes = 256}};
  device::PlannedSource source({}, nullptr, gpu().alignment());
  source.begin(slots);
  const auto serving = gpu().serve(source, source);
  EXPECT_EQ(at::mm(x, x).const_data_ptr(), block.get() + 1024);
  EXPECT_THROW(at::mm(x, x), Error) << "the plan has no second request";
}

TEST(CudaDevice, LastingWorkspacesAreNoRequestOfAnOp) {
  std::thread([] {  // has no workspaces yet
    const int before = FakeGpu::lasting_workspaces();
    const at::Tensor x = at::ones({8, 8}, on_gpu());
    device::AllocationRecorder source(gpu().system());
    for (const c10::StreamId id : {0, 5, 5, 0}) {
      const c10::StreamGuard guard(stream_of(0, id));
      const auto serving = gpu().serve(source, source);
      at::mm(x, x);
    }
    EXPECT_EQ(FakeGpu::lasting_workspaces(), before + 2);
    for (const auto& request : source.requests()) EXPECT_EQ(request.bytes, 256);
    EXPECT_EQ(source.count(), 4);
  })
      .join();
}

TEST(CudaDevice, CountsWhatIsTakenAndWhatTheCallerAskedFor) {
  const device::AllocationCounters& counted = gpu().count_allocations();
  {
    device::AllocationRecorder source(gpu().system());
    gpu().serve(source, source);  // takes what the thread's kernels keep
  }
  const Bytes taken = counted.taken.now(), unserved = counted.unserved.now();
  at::Tensor own = at::empty({25}, on_gpu());
  EXPECT_EQ(counted.taken.now(), taken + 100);
  EXPECT_EQ(counted.unserved.now(), unserved + 100);
  {
    const auto block = gpu().allocate_scratch(1000);
    device::AllocationRecorder source(gpu().system());
    const auto serving = gpu().serve(source, source);
    const at::Tensor served = at::empty({50}, on_gpu());
    EXPECT_EQ(counted.taken.now(), taken + 1300);
    EXPECT_EQ(counted.unserved.now(), unserved + 100);
  }
  gpu().reset_allocation_peaks();
  own.reset();
  EXPECT_EQ(counted.taken.now(), taken);
  EXPECT_EQ(counted.taken.peak(), taken + 100);
  EXPECT_EQ(counted.unserved.now(), unserved);
  EXPECT_EQ(gpu(1).count_allocations().taken.now(), 0) << "the other device has its own";
}

TEST(CudaDevice, AReplayedDrawHasTheSavedState) {
  at::Generator generator = at::globalContext().defaultGenerator(gpu(1).torch_device());
  generator.set_current_seed(3);
  generator.set_offset(40);
  std::vector<std::byte> saved(static_cast<std::size_t>(gpu(1).generator_state_bytes()));
  std::vector<std::byte> present(saved.size());
  gpu(1).save_generator(saved.data());
  generator.set_current_seed(5);
  generator.set_offset(8);
  {
    const device::ReplayedDraw draw(gpu(1), saved.data(), present.data());
    EXPECT_EQ(generator.current_seed(), 3U);
    EXPECT_EQ(generator.get_offset(), 40U);
  }
  EXPECT_EQ(generator.current_seed(), 5U);
  EXPECT_EQ(generator.get_offset(), 8U);
}

TEST(CudaDevice, WaitsForTheDeviceAndForNothingElse) {
  std::vector<std::byte> state(static_cast<std::size_t>(gpu().generator_state_bytes()));
  const int device_waits = FakeGpu::device_waits(), stream_waits = FakeGpu::stream_waits();
  gpu().save_generator(state.data());
  gpu().restore_generator(state.data());
  EXPECT_EQ(FakeGpu::device_waits(), device_waits);
  gpu().synchronize();
  EXPECT_EQ(FakeGpu::device_waits(), device_waits + 1);
  EXPECT_EQ(FakeGpu::stream_waits(), stream_waits);
}

TEST(CudaDevice, IsKnownOnceItIsAdded) {
  device::add_device(gpu(1));
  EXPECT_EQ(&device::device_of(at::Device(at::kCUDA, 1)), &gpu(1));
  EXPECT_THROW(device::device_of(at::Device(at::kCUDA, 0)), InputError);
}

}  // namespace
}  // namespace lowtide::cuda
