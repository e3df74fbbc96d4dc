#include "device/graph.h"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include <exception>
#include <map>
#include <mutex>
#include <utility>

#include "base/error.h"

namespace lowtide::device {
namespace {

using MakeGraph = std::function<std::unique_ptr<WorkGraph>()>;

struct AddedGraphs {
  std::mutex mutex;
  std::map<c10::DeviceType, MakeGraph> of_type;
};

AddedGraphs& added_graphs() {
  static AddedGraphs* const added = new AddedGraphs;  // outlives objects of Python
  return *added;
}

MakeGraph added_for(c10::DeviceType type) {
  AddedGraphs& added = added_graphs();
  const std::scoped_lock lock(added.mutex);
  const auto found = added.of_type.find(type);
  return found == added.of_type.end() ? MakeGraph() : found->second;
}

#ifdef LOWTIDE_DEVICE_GRAPHS

class FrameworkGraph final : public WorkGraph {
 public:
  explicit FrameworkGraph(c10::DeviceType type) : graph_(at::create_graph_impl(type)) {}
  void begin() override { graph_->capture_begin({0, 0}, at::GraphCaptureMode::ThreadLocal); }
  void end() override { graph_->capture_end(); }
  void submit() override { graph_->replay(); }

 private:
  std::unique_ptr<at::GraphImplInterface> graph_;
};

MakeGraph framework_graphs_for(c10::DeviceType type) {
  if (!at::has_graph_impl(type)) return {};
  return [type] { return std::make_unique<FrameworkGraph>(type); };
}

#else

MakeGraph framework_graphs_for(c10::DeviceType) { return {}; }

#endif

MakeGraph graphs_for(c10::DeviceType type) {
  MakeGraph added = added_for(type);
  return added ? added : framework_graphs_for(type);
}

c10::Stream current_stream_of(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

void order(c10::Stream first, c10::Stream second) {
  c10::Event done(first.device_type());
  done.record(first);
  done.block(second);
}

void end_graph(WorkGraph& graph) {
  try {
    graph.end();
  } catch (const c10::Error& error) {
    throw Error(
        fmt::format("the device cannot record this work: {}", error.what_without_backtrace()));
  }
}

}  // namespace

void add_graphs(c10::DeviceType type, MakeGraph make) {
  AddedGraphs& added = added_graphs();
  const std::scoped_lock lock(added.mutex);
  added.of_type[type] = std::move(make);
}

std::string why_no_graphs(c10::Device device) {
  if (device.is_cpu()) return "the CPU runs work at once and has no graphs of it";
  if (graphs_for(device.type())) return "";
  return fmt::format("this PyTorch has no graphs for the device {}", device.str());
}

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

RecordedWork::RecordedWork(c10::Device device, const std::function<void()>& submit)
    : graph_(graphs_for(device.type())()) {
  graph_->begin();
  try {
    submit();
  } catch (...) {
    try {
      graph_->end();
    } catch (const std::exception&) {  // the first error says why
    }
    throw;
  }
  end_graph(*graph_);
}

}  // namespace lowtide::device
