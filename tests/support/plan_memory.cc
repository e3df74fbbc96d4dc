#include "support/plan_memory.h"

#include <algorithm>
#include <map>
#include <vector>

namespace lowtide::testing {
namespace {

/// A range of addresses from the beginning of the action `from` to that of the action `until`.
struct Range {
  Bytes begin, end;
  std::size_t from, until;
};

bool clash(const Range& a, const Range& b) {
  return a.from < b.until && b.from < a.until && a.begin < b.end && b.begin < a.end;
}

class MemoryCount {
 public:
  MemoryCount(const Graph& graph, const Plan& plan) : graph_(graph), plan_(plan) {
    for (const Tensor& tensor : graph.tensors()) {
      if (tensor.kind == Kind::resident) residents_ += tensor.bytes;
    }
    if (!plan.slower) return;
    for (TensorId id : plan.slower->residents) residents_ -= graph.tensor(id).bytes;
  }

  PlanMemory result() {
    memory_.peak_bytes = residents_;
    for (at_ = 0; at_ < plan_.actions.size(); ++at_) act(plan_.actions[at_]);
    while (!there_.empty()) end(there_.begin()->first);
    memory_.arena_bytes = residents_;
    for (std::size_t i = 0; i < ranges_.size(); ++i) {
      memory_.arena_bytes = std::max(memory_.arena_bytes, residents_ + ranges_[i].end);
      for (std::size_t j = 0; j < i; ++j) memory_.overlaps |= clash(ranges_[i], ranges_[j]);
    }
    return memory_;
  }

 private:
  struct Stored {
    Bytes offset;
    std::size_t from;
  };

  void act(const Action& action) {
    Bytes workspace = 0;
    if (action.verb == Verb::run) workspace = run(graph_.op(action.index), action);
    if (action.verb == Verb::free) end(graph_.storage(action.index));
    if (action.verb == Verb::prefetch) {
      const TensorId storage = graph_.storage(action.index);
      begin(storage, offset_of(false, storage));
    }
    Bytes held = residents_ + workspace;
    for (const auto& [storage, stored] : there_) held += graph_.tensor(storage).bytes;
    memory_.peak_bytes = std::max(memory_.peak_bytes, held);
  }

  Bytes run(const Op& op, const Action& action) {
    std::map<TensorId, Bytes> inherited;  // by output: its address
    for (int position : action.in_place) {
      const auto pair = std::ranges::find(op.inplace, position, &InPlace::output);
      const TensorId source = graph_.storage(op.inputs[pair->input]);
      inherited[op.outputs[position]] = there_.at(source).offset;
      end(source);
    }
    for (TensorId out : op.outputs) {
      if (graph_.storage(out) != out) continue;
      begin(out, inherited.contains(out) ? inherited[out] : offset_of(false, out));
    }
    if (op.workspace_bytes > 0 && plan_.layout) {
      const Bytes offset = offset_of(true, action.index);
      ranges_.push_back({offset, offset + op.workspace_bytes, at_, at_ + 1});
    }
    return op.workspace_bytes;
  }

  void begin(TensorId storage, Bytes offset) { there_[storage] = {offset, at_}; }

  void end(TensorId storage) {
    const Stored stored = there_.at(storage);
    const Bytes bytes = graph_.tensor(storage).bytes;
    if (bytes > 0 && plan_.layout) {
      ranges_.push_back({stored.offset, stored.offset + bytes, stored.from, at_});
    }
    there_.erase(storage);
  }

  Bytes offset_of(bool workspace, std::int32_t index) {
    const bool has_bytes = workspace || graph_.tensor(index).bytes > 0;
    if (!plan_.layout || !has_bytes) return 0;
    for (const Placement& placed : plan_.layout->placements[at_]) {
      if (placed.workspace == workspace && placed.index == index) return placed.offset;
    }
    memory_.has_all_addresses = false;
    return 0;
  }

  const Graph& graph_;
  const Plan& plan_;
  Bytes residents_ = 0;  ///< that stay
  std::size_t at_ = 0;
  std::map<TensorId, Stored> there_;
  std::vector<Range> ranges_;
  PlanMemory memory_;
};

}  // namespace

PlanMemory memory_of(const Graph& graph, const Plan& plan) {
  return MemoryCount(graph, plan).result();
}

}  // namespace lowtide::testing
