#include "device/graph.h"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include <exception>

#include "base/error.h"

namespace lowtide::device {
namespace {

c10::Stream current_stream_of(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

void order(c10::Stream first, c10::Stream second) {
  c10::Event done(first.device_type());
  done.record(first);
  done.block(second);
}

}  // namespace

SideStream::SideStream(c10::Device device)
    : stream_(c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device)) {}

void SideStream::run(const std::function<void()>& submit) const {
  const c10::Stream callers = current_stream_of(stream_.device());
  order(callers, stream_);
  run_apart(submit);
  order(stream_, callers);
}

void SideStream::run_apart(const std::function<void()>& submit) const {
  const c10::StreamGuard guard(stream_);
  submit();
}

#ifdef LOWTIDE_DEVICE_GRAPHS

std::string why_no_graphs(c10::Device device) {
  if (device.is_cpu()) return "the CPU runs work at once and has no graphs of it";
  if (at::has_graph_impl(device.type())) return "";
  return fmt::format("PyTorch has no graphs for the device {}", device.str());
}

struct RecordedWork::Impl {
  std::unique_ptr<at::GraphImplInterface> graph;
};

RecordedWork::RecordedWork(c10::Device device, const std::function<void()>& submit)
    : impl_(std::make_unique<Impl>()) {
  impl_->graph = at::create_graph_impl(device.type());
  // Of this thread alone: others, such as those that load data, may go on meanwhile.
  impl_->graph->capture_begin({0, 0}, at::GraphCaptureMode::ThreadLocal);
  try {
    submit();
  } catch (...) {
    try {
      impl_->graph->capture_end();
    } catch (const std::exception&) {  // the first error says why
    }
    throw;
  }
  try {
    impl_->graph->capture_end();
  } catch (const c10::Error& error) {
    throw Error(
        fmt::format("the device cannot record this work: {}", error.what_without_backtrace()));
  }
}

void RecordedWork::submit() const { impl_->graph->replay(); }

#else

std::string why_no_graphs(c10::Device device) {
  if (device.is_cpu()) return "the CPU runs work at once and has no graphs of it";
  return "this version of PyTorch has no graphs that work on every device; 2.13 has";
}

struct RecordedWork::Impl {};

RecordedWork::RecordedWork(c10::Device device, const std::function<void()>&) {
  throw Error(why_no_graphs(device));
}

void RecordedWork::submit() const {}

#endif

RecordedWork::~RecordedWork() = default;

}  // namespace lowtide::device
