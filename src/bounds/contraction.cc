#include "bounds/contraction.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace lowtide::bounds {
namespace {

/// "Soon": the largest distance in stages. Holding the value over them has no price.
constexpr int kNear = 4;

class Contracting {
 public:
  Contracting(const remat::StageGraph& graph, const std::vector<bool>& decided, Gluing gluing)
      : graph_(graph), gluing_(gluing) {
    for (int i = 0; i < graph.end(); ++i) ops_.push_back(plain(i, decided));
  }

  Contraction run() {
    std::vector<int> glued;
    for (BoundOp& op : ops_) {
      BoundOp* first = costliest_to_glue(op);
      if (first == nullptr) continue;
      op.cost += first->cost;
      op.deadline = std::min(op.deadline, first->deadline);
      op.inputs = first->inputs;
      glued.push_back(first->outputs.front());
      first->outputs.clear();
    }
    std::erase_if(ops_, [](const BoundOp& op) { return op.outputs.empty(); });
    return {std::move(ops_), std::move(glued)};
  }

 private:
  BoundOp plain(int i, const std::vector<bool>& decided) const {
    const remat::Stage& stage = graph_.stage(i);
    BoundOp op{.stage = i, .cost = stage.cost, .deadline = stage.latest, .inputs = stage.inputs};
    std::ranges::copy_if(stage.outputs, std::back_inserter(op.outputs),
                         [&](int v) { return decided[v]; });
    return op;
  }

  /// The most expensive op that may be glued to this one; null when there is none.
  BoundOp* costliest_to_glue(const BoundOp& op) {
    Bytes made = 0;
    for (int v : op.outputs) made += graph_.value(v).bytes;
    BoundOp* best = nullptr;
    for (int v : op.inputs) {
      const remat::StageValue& value = graph_.value(v);
      BoundOp& maker = ops_[value.producer];
      const bool glues = !op.outputs.empty() && maker.outputs == std::vector{v} &&
                         value.readers == std::vector{op.stage} && made <= value.bytes &&
                         op.stage - maker.stage <= kNear && may_drop_others(op, v);
      if (glues && (best == nullptr || maker.cost > best->cost)) best = &maker;
    }
    return best;
  }

  bool may_drop_others(const BoundOp& op, int v) const {
    return gluing_ == Gluing::loose || std::ranges::all_of(op.inputs, [&](int other) {
             return other == v || 2 * graph_.value(other).bytes < graph_.value(v).bytes;
           });
  }

  const remat::StageGraph& graph_;
  Gluing gluing_;
  std::vector<BoundOp> ops_;  // per stage but the end
};

}  // namespace

Contraction contract(const remat::StageGraph& graph, const std::vector<bool>& decided,
                     Gluing gluing) {
  return Contracting(graph, decided, gluing).run();
}

}  // namespace lowtide::bounds
