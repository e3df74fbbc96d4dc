#include "ordering/precedence.h"

#include <algorithm>
#include <utility>

#include "graph/boundary.h"

namespace lowtide::ordering {
namespace {

/// Finds the predecessors of each stage, stage by stage.
class Walk {
 public:
  Walk(const Graph& graph, const remat::StageGraph& stages, Orders orders)
      : graph_(graph),
        orders_(orders),
        stage_of_(graph.num_ops(), kNone),
        writer_(graph.num_tensors(), kNone),
        readers_(graph.num_tensors()),
        overwriters_(stages.end()) {
    for (int i = 0; i < stages.end(); ++i) stage_of_[stages.stage(i).op] = i;
  }

  std::vector<int> before(int stage, OpId id) {
    found_.clear();
    const Op& op = graph_.op(id);
    for (TensorId in : op.inputs) {
      add_makers(in);
      if (graph_.is_resident(in) && reads_bytes(id)) read(stage, graph_.storage(in));
    }
    for (int position : op.mutates) write(stage, graph_.storage(op.inputs[position]));
    if (orders_ == Orders::same_bits) keep_effects(stage, op);
    return found_;
  }

  std::vector<std::vector<int>> overwriters() { return std::move(overwriters_); }

 private:
  /// An op that names what it writes runs only once because of that.
  static bool may_have_hidden_effects(const Op& op) {
    return !op.recomputable && op.mutates.empty();
  }

  static bool has_effect(const Op& op) {
    return op.random || !op.recomputable || !op.mutates.empty();
  }

  void add(int stage) {
    if (stage != kNone) found_.push_back(stage);
  }

  /// The caller sees at the boundary what the first half wrote and drew, and may give up the second
  /// one: no effect crosses it.
  void keep_effects(int stage, const Op& op) {
    if (op.random || may_have_hidden_effects(op)) {
      add(ordered_);
      ordered_ = stage;
    }
    if (is_boundary(op)) {
      for (int earlier : effects_) add(earlier);
      boundary_ = stage;
    } else if (has_effect(op)) {
      add(boundary_);
      effects_.push_back(stage);
    }
  }

  /// The stage that makes the tensor; of a view that runs on demand, those that make its inputs.
  void add_makers(TensorId id) {
    const OpId producer = graph_.producer(id);
    if (producer == kNone) return;
    if (stage_of_[producer] != kNone) return add(stage_of_[producer]);
    for (TensorId in : graph_.op(producer).inputs) add_makers(in);
  }

  /// A view op reads no bytes; its first run keeps its place among writes by choice.
  bool reads_bytes(OpId id) const { return orders_ == Orders::same_bits || !graph_.is_view_op(id); }

  void read(int stage, TensorId storage) {
    add(writer_[storage]);
    readers_[storage].push_back(stage);
  }

  void write(int stage, TensorId storage) {
    if (writer_[storage] == stage) return;  // once more, by another input that shares it
    add(writer_[storage]);
    for (int reader : readers_[storage]) {
      if (reader == stage) continue;
      add(reader);
      overwriters_[reader].push_back(stage);
    }
    // What the stage reads itself is overwritten by the next writer.
    std::erase_if(readers_[storage], [&](int reader) { return reader != stage; });
    writer_[storage] = stage;
  }

  const Graph& graph_;
  const Orders orders_;
  std::vector<int> stage_of_;                  // per op; kNone for views and for unneeded ops
  std::vector<int> writer_;                    // per storage: the last stage that wrote it
  std::vector<std::vector<int>> readers_;      // per storage: stages that read it since
  std::vector<std::vector<int>> overwriters_;  // per stage
  int ordered_ = kNone;                        // the last stage whose place among others matters
  int boundary_ = kNone;                       // once it has come
  std::vector<int> effects_;                   // stages that have one
  std::vector<int> found_;
};

}  // namespace

Precedence::Precedence(const Graph& graph, const remat::StageGraph& stages, Orders orders) {
  Walk walk(graph, stages, orders);
  std::vector<std::vector<int>> before;
  for (int i = 0; i < stages.end(); ++i) before.push_back(walk.before(i, stages.stage(i).op));
  *this = Precedence(std::move(before));
  overwriters_ = walk.overwriters();
}

Precedence::Precedence(std::vector<std::vector<int>> before)
    : before_(std::move(before)), after_(before_.size()), overwriters_(before_.size()) {
  for (int i = 0; i < static_cast<int>(before_.size()); ++i) {
    std::ranges::sort(before_[i]);
    const auto repeated = std::ranges::unique(before_[i]);
    before_[i].erase(repeated.begin(), repeated.end());
    for (int earlier : before_[i]) after_[earlier].push_back(i);
  }
}

std::vector<bool> Precedence::reached(int stage, const std::vector<std::vector<int>>& next) {
  std::vector<bool> found(next.size());
  std::vector<int> open{stage};
  while (!open.empty()) {
    const int here = open.back();
    open.pop_back();
    for (int other : next[here]) {
      if (!found[other]) open.push_back(other);
      found[other] = true;
    }
  }
  return found;
}

}  // namespace lowtide::ordering
