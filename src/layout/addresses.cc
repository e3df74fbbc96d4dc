#include <algorithm>
#include <utility>

#include "layout/layout.h"
#include "layout/solve.h"

namespace lowtide {
namespace {

/// The buffers that a plan needs, and which action begins what in them.
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

  const std::vector<Buffer>& buffers() const { return buffers_; }

  Layout layout(const Packing& packing) const {
    Layout layout{std::vector<std::vector<Placement>>(static_cast<std::size_t>(end_)),
                  graph_.resident_bytes()};
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      Placement placement = born_[i];
      placement.offset = packing.offsets[i];
      layout.placements[buffers_[i].begin].push_back(placement);
      layout.arena_bytes = std::max(
          layout.arena_bytes, graph_.resident_bytes() + placement.offset + buffers_[i].bytes);
    }
    return layout;
  }

 private:
  void act(const Action& action) {
    switch (action.verb) {
      case Verb::run: run(graph_.op(action.index), action); break;
      case Verb::free:
      case Verb::offload: end(graph_.storage(action.index)); break;
      case Verb::prefetch: begin(graph_.storage(action.index)); break;
    }
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
    if (buffer != kNone) buffers_[buffer].end = time_;
  }

  /// The new buffer; kNone when there is nothing to place.
  std::int32_t add(Placement placement, Bytes bytes, std::int32_t end) {
    if (bytes == 0) return kNone;
    buffers_.push_back({time_, end, bytes});
    born_.push_back(placement);
    return static_cast<std::int32_t>(buffers_.size()) - 1;
  }

  const Graph& graph_;
  std::int32_t end_;
  std::int32_t time_ = 0;
  std::vector<std::int32_t> buffer_of_;  // per storage that is live; kNone: none
  std::vector<Buffer> buffers_;
  std::vector<Placement> born_;  // per buffer: what it holds first
};

}  // namespace

Layout assign_addresses(const Graph& graph, const Plan& plan, const PackingGoal& goal,
                        const Control& control) {
  const Collector collector(graph, plan);
  const auto within = [&](std::optional<Bytes> capacity) {
    const PackingGoal aligned{goal.alignment, capacity, goal.work};
    return collector.layout(solve_packing(collector.buffers(), aligned, control).packing);
  };
  if (!goal.capacity) return within(std::nullopt);
  // The packing counts whole units of alignment; what lies last may not fill its last one.
  const Bytes units = align_up(*goal.capacity, goal.alignment);
  const Bytes most = graph.resident_bytes() + *goal.capacity;
  Layout layout = within(units);
  const bool fills_last = layout.arena_bytes > most && layout.arena_bytes - most < goal.alignment;
  return fills_last ? within(units - goal.alignment) : layout;
}

}  // namespace lowtide
