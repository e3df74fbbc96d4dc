#include "cuda/served_thread.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <pthread.h>

namespace lowtide::cuda {
namespace {

thread_local ServedThread* innermost = nullptr;

const c10::impl::DeviceGuardImplInterface& devices() {
  return *c10::impl::getDeviceGuardImpl(c10::DeviceType::CUDA);
}

/// The thread that forks is the only one of the new process, which has no running step.
void forget_after_fork() {
  [[maybe_unused]] static const int registered =
      pthread_atfork(nullptr, nullptr, [] { innermost = nullptr; });
}

}  // namespace

ServedThread::ServedThread(device::MemorySource& source, c10::Stream stream)
    : source_(source), stream_(stream), outer_(innermost) {
  forget_after_fork();
  innermost = this;
}

ServedThread::~ServedThread() {
  if (innermost == this) innermost = outer_;
}

device::MemorySource* ServedThread::source() {
  if (innermost == nullptr) return nullptr;
  const c10::Device device = innermost->stream_.device();
  const bool is_current =
      devices().getDevice() == device && devices().getStream(device) == innermost->stream_;
  return is_current ? &innermost->source_ : nullptr;
}

device::MemorySource* ServedThread::source_for(const void* stream) {
  device::MemorySource* const current = source();
  if (current == nullptr) return nullptr;
  return devices().getStreamNativeHandle(innermost->stream_) == stream ? current : nullptr;
}

c10::Device ServedThread::device() { return innermost->stream_.device(); }

}  // namespace lowtide::cuda
