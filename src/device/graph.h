#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#if __has_include(<ATen/core/GraphImplInterface.h>)
/// The framework has graphs of work that do not depend on the type of the device.
#define LOWTIDE_DEVICE_GRAPHS
#include <ATen/core/GraphImplInterface.h>
#endif

#include <functional>
#include <memory>
#include <string>

namespace lowtide::device {

/// Why the device cannot record work and submit it again as one; "" where it can.
std::string why_no_graphs(c10::Device device);

/// A stream beside the one in use, on which work can be recorded.
class SideStream {
 public:
  explicit SideStream(c10::Device device);
  /// Runs `submit` with this as the current stream: after the work asked of the caller's stream so
  /// far, and before what is asked of it later.
  void run(const std::function<void()>& submit) const;
  /// Runs `submit` with this as the current stream, without an order.
  void run_apart(const std::function<void()>& submit) const;

 private:
  c10::Stream stream_;
};

/// Work that was recorded once, and can be submitted as one: a graph of the framework.
class RecordedWork {
 public:
  /// Records what `submit` asks of the current stream, which must not be the default one, and does
  /// none of it. Throws what `submit` throws, and Error where something cannot be recorded.
  /// Precondition: why_no_graphs() is empty.
  RecordedWork(c10::Device device, const std::function<void()>& submit);
  ~RecordedWork();
  RecordedWork(const RecordedWork&) = delete;
  RecordedWork& operator=(const RecordedWork&) = delete;

  /// Asks the current stream for all of it.
  void submit() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lowtide::device
