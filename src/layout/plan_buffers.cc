#include "layout/plan_buffers.h"

#include <algorithm>
#include <utility>

#include "plan/residents.h"

namespace lowtide::layout {
namespace {

constexpr Bytes kSmallestAligned = 16 * kCopyAlignment;

/// Follows the actions of a plan.
class Collector {
 public:
  Collector(const Graph& graph, const Plan& plan)
      : graph_(graph),
        end_(static_cast<std::int32_t>(plan.actions.size())),
        buffer_of_(graph.num_tensors(), kNone) {
    for (const Action& action : plan.actions) {
      act(action);
      ++time_;
    }
  }

  PlanBuffers take() { return std::move(needed_); }

 private:
  void act(const Action& action) {
    switch (action.verb) {
      case Verb::run: run(graph_.op(action.index), action); break;
      case Verb::free: end(graph_.storage(action.index)); break;
      case Verb::prefetch: begin(graph_.storage(action.index)); [[fallthrough]];
      case Verb::offload: align(graph_.storage(action.index)); break;
      case Verb::wait: break;
    }
  }

  /// Of a small value, the gap before it would cost more than a copy by way of a buffer. A graph
  /// that is only planned and never run needs no alignment.
  void align(TensorId storage) {
    const std::int32_t buffer = buffer_of_[storage];
    if (buffer == kNone || !graph_.executable()) return;
    packing::Buffer& moved = needed_.buffers[buffer];
    if (moved.bytes >= kSmallestAligned) moved.alignment = kCopyAlignment;
  }

  void run(const Op& op, const Action& action) {
    for (int position : action.in_place) inherit(op, position);
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      const bool fresh = std::ranges::count(action.in_place, static_cast<int>(i)) == 0;
      if (fresh && graph_.tensor(op.outputs[i]).alias_of == kNone) begin(op.outputs[i]);
    }
    add({true, action.index, 0}, op.workspace_bytes, time_ + 1);
  }

  /// The whole chain of in-place writes is one buffer, as large as its first storage.
  void inherit(const Op& op, int position) {
    const auto pair = std::ranges::find(op.inplace, position, &InPlace::output);
    const TensorId source = graph_.storage(op.inputs[pair->input]);
    buffer_of_[op.outputs[position]] = std::exchange(buffer_of_[source], kNone);
  }

  void begin(TensorId storage) {
    buffer_of_[storage] = add({false, storage, 0}, graph_.tensor(storage).bytes, end_);
  }

  void end(TensorId storage) {
    const std::int32_t buffer = std::exchange(buffer_of_[storage], kNone);
    if (buffer != kNone) needed_.buffers[buffer].end = time_;
  }

  /// The new buffer; kNone when it has no bytes.
  std::int32_t add(Placement placement, Bytes bytes, std::int32_t end) {
    if (bytes == 0) return kNone;
    needed_.buffers.push_back({time_, end, bytes});
    needed_.first.push_back(placement);
    return static_cast<std::int32_t>(needed_.buffers.size()) - 1;
  }

  const Graph& graph_;
  std::int32_t end_;
  std::int32_t time_ = 0;
  std::vector<std::int32_t> buffer_of_;  // per live storage; kNone: no buffer
  PlanBuffers needed_;
};

}  // namespace

PlanBuffers buffers_of(const Graph& graph, const Plan& plan) {
  return Collector(graph, plan).take();
}

Layout layout_of(const Graph& graph, const Plan& plan, const PlanBuffers& needed,
                 const std::vector<Bytes>& offsets) {
  const Bytes residents = staying_bytes(graph, plan);
  Layout layout{std::vector<std::vector<Placement>>(plan.actions.size()), residents};
  for (std::size_t i = 0; i < needed.buffers.size(); ++i) {
    const packing::Buffer& buffer = needed.buffers[i];
    Placement placement = needed.first[i];
    placement.offset = offsets[i];
    layout.placements[buffer.begin].push_back(placement);
    layout.arena_bytes = std::max(layout.arena_bytes, residents + placement.offset + buffer.bytes);
  }
  return layout;
}

}  // namespace lowtide::layout
