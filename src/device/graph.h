#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#if __has_include(<ATen/core/GraphImplInterface.h>)
/// The framework has an interface of graphs of work that is the same for every type of device.
#define LOWTIDE_DEVICE_GRAPHS
#include <ATen/core/GraphImplInterface.h>
#endif

#include <functional>
#include <memory>
#include <string>

namespace lowtide::device {

/// A graph of the framework: work that a stream is asked for between begin() and end(), to be
/// submitted as one. All throw Error or c10::Error.
class WorkGraph {
 public:
  virtual ~WorkGraph() = default;
  /// Of the current stream. What other threads do meanwhile concerns it only if it uses the stream.
  virtual void begin() = 0;
  virtual void end() = 0;
  /// To the current stream.
  virtual void submit() = 0;
};

/// Graphs of a type of device that the framework's interface does not have, such as CUDA's in
/// PyTorch 2.13. They are used in place of those that it has.
void add_graphs(c10::DeviceType type, std::function<std::unique_ptr<WorkGraph>()> make);

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

/// Work that was recorded once, and can be submitted as one.
class RecordedWork {
 public:
  /// Records what `submit` asks of the current stream, which must not be the default one, and does
  /// none of it. Throws what `submit` throws, and Error where something cannot be recorded.
  /// Precondition: why_no_graphs() is empty.
  RecordedWork(c10::Device device, const std::function<void()>& submit);

  /// Asks the current stream for all of it.
  void submit() const { graph_->submit(); }

 private:
  std::unique_ptr<WorkGraph> graph_;
};

}  // namespace lowtide::device
