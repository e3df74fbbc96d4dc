#pragma once

#include <c10/core/Stream.h>

#include "device/allocation.h"

namespace lowtide::cuda {

/// While it lives, `source` serves the requests of this thread for memory of the stream's device,
/// as long as that stream is the current one: planned addresses are used again in its order alone.
/// May be nested. A process that forks goes on without it.
class ServedThread {
 public:
  ServedThread(device::MemorySource& source, c10::Stream stream);
  ~ServedThread();
  ServedThread(const ServedThread&) = delete;
  ServedThread& operator=(const ServedThread&) = delete;

  /// The source of a request that this thread makes now for the current stream; null for none.
  static device::MemorySource* source();
  /// The same for a stream by its handle of CUDA.
  static device::MemorySource* source_for(const void* stream);
  /// Of the innermost stream. Precondition: source() is not null.
  static c10::Device device();

 private:
  device::MemorySource& source_;
  c10::Stream stream_;
  ServedThread* outer_;
};

}  // namespace lowtide::cuda
