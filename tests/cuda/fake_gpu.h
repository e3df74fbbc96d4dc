#pragma once

#include <c10/core/Stream.h>

namespace lowtide::cuda {

/// Two GPUs in software, as far as Lowtide's code for CUDA asks for them: a current device and
/// stream for each thread, a generator, and a few kernels. Their memory is FakeNative's.
struct FakeGpu {
  static constexpr c10::DeviceIndex kDevices = 2;
  static int device_waits();  ///< calls of synchronizeDevice()
  static int stream_waits();  ///< calls of synchronizeStream()
  /// Threads and streams on which the fake library of matrix products took its lasting workspace.
  static int lasting_workspaces();
};

c10::Stream stream_of(c10::DeviceIndex device, c10::StreamId id);

}  // namespace lowtide::cuda
