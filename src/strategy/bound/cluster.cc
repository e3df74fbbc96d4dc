#include "strategy/bound/cluster.h"

#include <algorithm>
#include <utility>

namespace lowtide {

Cluster::Cluster(const StageGraph& graph, std::vector<BoundOp> ops) : ops_(std::move(ops)) {
  for (const BoundOp& op : ops_) {
    values_.insert(values_.end(), op.outputs.begin(), op.outputs.end());
  }
  for (int v : values_) bytes_.push_back(static_cast<double>(graph.value(v).bytes));
  int before = kNone;
  for (int stage : touching_stages(graph)) {
    if (before != kNone) add_gap(graph, before, stage);
    add_first_run(graph, stage);
    before = stage;
  }
}

/// Stages that make or read a value of the cluster, and those after which one of its ops may not
/// run again.
std::vector<int> Cluster::touching_stages(const StageGraph& graph) const {
  std::vector<int> touching;
  int last = 0;
  for (int v : values_) {
    const StageValue& value = graph.value(v);
    touching.push_back(value.producer);
    touching.insert(touching.end(), value.readers.begin(), value.readers.end());
    last = std::max(last, value.last_reader());
  }
  for (const BoundOp& op : ops_) {
    if (op.deadline > op.stage && op.deadline < last) touching.push_back(op.deadline);
  }
  std::ranges::sort(touching);
  const auto repeated = std::ranges::unique(touching);
  touching.erase(repeated.begin(), repeated.end());
  return touching;
}

Cluster::Values Cluster::subset(std::span<const int> values) const {
  Values result = 0;
  for (std::size_t bit = 0; bit < values_.size(); ++bit) {
    if (std::ranges::find(values, values_[bit]) != values.end()) result |= Values(1u << bit);
  }
  return result;
}

/// What later first runs read, and what running those values' ops again takes.
Cluster::Values Cluster::useful_after(const StageGraph& graph, int stage) const {
  Values useful = 0;
  for (std::size_t bit = 0; bit < values_.size(); ++bit) {
    if (graph.value(values_[bit]).last_reader() > stage) useful |= Values(1u << bit);
  }
  return closure(useful);
}

/// Values that are of no use any more go.
void Cluster::close(Values useful) {
  const auto useless = static_cast<Values>(open_ & ~useful);
  if (useless == 0) return;
  steps_.push_back({.kind = Kind::close, .out = useless});
  open_ &= useful;
}

/// These values, and what of the cluster making them again takes.
Cluster::Values Cluster::closure(Values values) const {
  for (auto op = ops_.rbegin(); op != ops_.rend(); ++op) {
    if (subset(op->outputs) & values) values |= subset(op->inputs);
  }
  return values;
}

/// Before `stage`. Where holding over the stages [begin, end) has no price, only the ops that make
/// `needed` run again; or all, when one of them may not do so later.
void Cluster::add_choices(int stage, int begin, int end, Values needed) {
  const auto is_last_chance = [&](const BoundOp& op) { return op.deadline == stage; };
  if (std::ranges::any_of(ops_, is_last_chance)) needed = open_;
  for (const BoundOp& op : ops_) {
    const auto out = static_cast<Values>(subset(op.outputs) & open_);
    const Values in = subset(op.inputs);
    if (out == 0 || (in & ~open_) != 0 || stage > op.deadline) continue;
    steps_.push_back({Kind::run, in, out, op.cost, begin, end, (out & needed) != 0});
  }
  steps_.push_back({.kind = Kind::drop, .out = open_, .begin = begin, .end = end});
}

/// Between the first runs of two neighbouring touching stages: what runs again right after the one
/// is held, what runs again right before the other is not.
void Cluster::add_gap(const StageGraph& graph, int before, int after) {
  close(useful_after(graph, before));
  if (before + 1 < after) {
    add_choices(before + 1, before + 1, after, 0);
    steps_.push_back({.kind = Kind::pay, .begin = before + 1, .end = after});
  }
  add_choices(after, after, after + 1, closure(subset(graph.stage(after).inputs)));
}

void Cluster::add_first_run(const StageGraph& graph, int stage) {
  const Values in = subset(graph.stage(stage).inputs);
  const Values out = subset(graph.stage(stage).outputs);
  if (in != 0) steps_.push_back({.kind = Kind::need, .in = in});
  if (out != 0) steps_.push_back({.kind = Kind::make, .out = out});
  open_ |= out;
  const auto given = static_cast<Values>(in | out);
  steps_.push_back({.kind = Kind::pay, .in = given, .begin = stage, .end = stage + 1});
}

double Cluster::solve(const Prices& prices, SubsetTable& table, std::vector<Hold>& holds) const {
  table.reset(bytes_);
  for (const Step& step : steps_) take(step, prices, table);
  table.trace([&](int index, int begin, int end, bool is_given) {
    holds.push_back({values_[static_cast<std::size_t>(index)], begin, end, is_given});
  });
  return table.least();
}

void Cluster::take(const Step& step, const Prices& prices, SubsetTable& table) {
  const double price = prices.over(step.begin, step.end);
  switch (step.kind) {
    case Kind::make: table.make(step.out); break;
    case Kind::run:
      if (step.needed || price > 0) table.run(step.in, step.out, step.cost);
      break;
    case Kind::drop:
      if (price > 0) table.drop(step.out);
      break;
    case Kind::close: table.close(step.out); break;
    case Kind::pay: table.pay(step.in, price, step.begin, step.end); break;
    case Kind::need: table.need(step.in); break;
  }
}

}  // namespace lowtide
