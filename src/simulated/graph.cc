#include "simulated/graph.h"

#include "device/graph.h"

#ifdef LOWTIDE_DEVICE_GRAPHS

#include <c10/core/DeviceType.h>

#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "simulated/capture.h"
#include "simulated/graph_pools.h"
#include "simulated/state.h"

namespace lowtide::simulated {
namespace {

Refused refused_in(at::GraphCaptureMode mode) {
  switch (mode) {
    case at::GraphCaptureMode::ThreadLocal: return Refused::of_this_thread;
    case at::GraphCaptureMode::Relaxed: return Refused::of_the_capture;
    default: return Refused::of_all_threads;
  }
}

/// As CUDA's graphs are, in what is asked of the caller and in the order of calls.
class SimulatedGraph final : public at::GraphImplInterface {
 public:
  explicit SimulatedGraph(const at::GraphImplArgs& arguments)
      : keeps_recording_(arguments.keep_graph) {}
  ~SimulatedGraph() override { clear(); }

  void capture_begin(at::MempoolId_t pool, at::GraphCaptureMode mode) override {
    TORCH_CHECK(capture_ == nullptr && !recording_,
                "This graph owns a capture already. To capture again, make a new graph or call "
                "reset().");
    const StreamId stream = current_stream();
    TORCH_CHECK(stream != 0, "Graphs must be captured on a non-default stream. (After the capture "
                             "they may be replayed on the default stream.)");
    TORCH_CHECK(capture_of(stream) == nullptr, "The stream is being captured already.");
    pool_ = GraphPools::instance().hold(pool);
    capture_ = std::make_unique<Capture>(stream, *pool_, refused_in(mode));
  }

  void capture_end() override {
    TORCH_CHECK(capture_ != nullptr, "capture_end() called before capture_begin().");
    TORCH_CHECK(current_stream() == capture_->origin(),
                "Capture must end on the same stream it began on.");
    const std::unique_ptr<Capture> capture = std::move(capture_);
    recording_ = capture->end();
    if (recording_->work().empty()) {
      TORCH_WARN(
          "The graph is empty. This usually means that it was captured on the wrong stream.");
    }
  }

  void instantiate() override {
    TORCH_CHECK(recording_.has_value(),
                "capture_end() must have been called before calling instantiate");
    TORCH_CHECK(keeps_recording_,
                "instantiate() is intended to be called by the user only when keep_graph=true");
  }

  void replay() override {
    TORCH_CHECK(recording_.has_value(), "Called replay() without a preceding successful capture.");
    ++state().launches;
    recording_->replay();
  }

  void reset() override { clear(); }

  at::MempoolId_t pool() const override {
    TORCH_CHECK(recording_.has_value(), "Called pool() without a preceding successful capture.");
    return *pool_;
  }

  void enable_debug_mode() override {}

  /// The names of the recorded work, a line each.
  void debug_dump(const std::string& path) override {
    TORCH_CHECK(recording_.has_value(), "There is no captured graph to write.");
    std::ofstream file(path);
    for (const Recording::Work& work : recording_->work()) file << work.name << '\n';
    TORCH_CHECK(file.good(), "The graph cannot be written to ", path);
  }

 private:
  void clear() {
    capture_.reset();
    recording_.reset();
    if (pool_) GraphPools::instance().drop(*pool_);
    pool_.reset();
  }

  bool keeps_recording_;
  std::unique_ptr<Capture> capture_;
  std::optional<Recording> recording_;
  std::optional<at::MempoolId_t> pool_;
};

std::unique_ptr<at::GraphImplInterface> make_graph(at::GraphImplArgs arguments) {
  return std::make_unique<SimulatedGraph>(arguments);
}

/// The framework looks graphs up by the device type's name, which a program may give it later.
constexpr const char* kLaterName = "SIMULATED";

}  // namespace

void register_graphs() {
  for (const std::string& name :
       std::set<std::string>{c10::DeviceTypeName(kDeviceType), kLaterName}) {
    at::GraphImplRegistry()->Register(name, &make_graph);
  }
}

}  // namespace lowtide::simulated

#else

namespace lowtide::simulated {

void register_graphs() {}

}  // namespace lowtide::simulated

#endif
