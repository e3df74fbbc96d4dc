#include "strategy/bound/cluster.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace lowtide {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

}  // namespace

Cluster::Cluster(const StageGraph& graph, std::vector<BoundOp> ops)
    : ops_(std::move(ops)), bytes_(1) {
  for (const BoundOp& op : ops_) {
    values_.insert(values_.end(), op.outputs.begin(), op.outputs.end());
  }
  for (int v : values_) {
    const auto half = bytes_.size();
    bytes_.resize(2 * half);
    for (std::size_t s = 0; s < half; ++s) {
      bytes_[half + s] = bytes_[s] + static_cast<double>(graph.value(v).bytes);
    }
  }
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

Cluster::Subset Cluster::subset(std::span<const int> values) const {
  Subset result = 0;
  for (std::size_t bit = 0; bit < values_.size(); ++bit) {
    if (std::ranges::find(values, values_[bit]) != values.end()) result |= Subset(1u << bit);
  }
  return result;
}

/// What later first runs read, and what running those values' ops again takes.
Cluster::Subset Cluster::useful_after(const StageGraph& graph, int stage) const {
  Subset useful = 0;
  for (std::size_t bit = 0; bit < values_.size(); ++bit) {
    if (graph.value(values_[bit]).last_reader() > stage) useful |= Subset(1u << bit);
  }
  for (auto op = ops_.rbegin(); op != ops_.rend(); ++op) {
    if (subset(op->outputs) & useful) useful |= subset(op->inputs);
  }
  return useful;
}

void Cluster::add_choices(int stage, Subset useful) {
  for (const BoundOp& op : ops_) {
    const Subset out = subset(op.outputs);
    if ((out & made_) == 0 || (out & useful) == 0 || stage > op.deadline) continue;
    steps_.push_back({.kind = Kind::run, .in = subset(op.inputs), .out = out, .cost = op.cost});
  }
  for (std::size_t bit = 0; bit < values_.size(); ++bit) {
    const auto out = Subset(1u << bit);
    if (out & made_) steps_.push_back({.kind = Kind::drop, .out = out});
  }
}

/// Between the first runs of two neighbouring touching stages: what runs again right after the one
/// is held, what runs again right before the other is not.
void Cluster::add_gap(const StageGraph& graph, int before, int after) {
  const Subset useful = useful_after(graph, before);
  if (before + 1 < after) {
    add_choices(before + 1, useful);
    steps_.push_back({.kind = Kind::pay, .begin = before + 1, .end = after});
  }
  add_choices(after, useful);
}

void Cluster::add_first_run(const StageGraph& graph, int stage) {
  const Subset in = subset(graph.stage(stage).inputs);
  const Subset out = subset(graph.stage(stage).outputs);
  if (in != 0) steps_.push_back({.kind = Kind::need, .in = in});
  if (out != 0) steps_.push_back({.kind = Kind::make, .out = out});
  const auto given = static_cast<Subset>(in | out);
  steps_.push_back({.kind = Kind::pay, .in = given, .begin = stage, .end = stage + 1});
  made_ |= out;
}

double Cluster::solve(const Prices& prices, Scratch& scratch, std::vector<Hold>& holds) const {
  scratch.least.assign(bytes_.size(), kNever);
  scratch.least[0] = 0;
  scratch.from.clear();
  for (const Step& step : steps_) take(step, prices, scratch);
  trace_back(scratch, holds);
  return *std::ranges::min_element(scratch.least);
}

void Cluster::take(const Step& step, const Prices& prices, Scratch& scratch) const {
  std::vector<double>& least = scratch.least;
  const auto n = static_cast<unsigned>(least.size());
  Subset* from = nullptr;
  if (step.kind == Kind::run || step.kind == Kind::drop) {
    const std::size_t begin = scratch.from.size();
    scratch.from.resize(begin + n);
    from = scratch.from.data() + begin;
    for (unsigned s = 0; s < n; ++s) from[s] = static_cast<Subset>(s);
  }
  const auto improve = [&](unsigned to, unsigned source, double cost) {
    if (least[source] + cost >= least[to]) return;
    least[to] = least[source] + cost;
    from[to] = static_cast<Subset>(source);
  };
  switch (step.kind) {
    case Kind::make:
      for (unsigned s = 0; s < n; ++s) {
        if ((s & step.out) != 0) continue;
        least[s | step.out] = least[s];
        least[s] = kNever;
      }
      break;
    case Kind::run:
      for (unsigned s = 0; s < n; ++s) {
        if ((s & step.out) != step.out || (s & step.in) != step.in) continue;
        for (unsigned lacking = step.out; lacking != 0; lacking = (lacking - 1) & step.out) {
          improve(s, s & ~lacking, step.cost);
        }
      }
      break;
    case Kind::drop:
      for (unsigned s = 0; s < n; ++s) {
        if ((s & step.out) == 0) improve(s, s | step.out, 0);
      }
      break;
    case Kind::pay: {
      const double price = prices.over(step.begin, step.end);
      for (unsigned s = 0; price > 0 && s < n; ++s) least[s] += price * bytes_[s & ~step.in];
      break;
    }
    case Kind::need:
      for (unsigned s = 0; s < n; ++s) {
        if ((s & step.in) != step.in) least[s] = kNever;
      }
      break;
  }
}

void Cluster::trace_back(const Scratch& scratch, std::vector<Hold>& holds) const {
  auto state = static_cast<unsigned>(std::ranges::min_element(scratch.least) -
                                     scratch.least.begin());
  const Subset* from = scratch.from.data() + scratch.from.size();
  for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
    switch (step->kind) {
      case Kind::make: state &= ~unsigned{step->out}; break;
      case Kind::run:
      case Kind::drop:
        from -= scratch.least.size();
        state = from[state];
        break;
      case Kind::pay:
        for (std::size_t bit = 0; bit < values_.size(); ++bit) {
          if ((state >> bit & 1) == 0) continue;
          const bool free = (step->in >> bit & 1) != 0;
          holds.push_back({values_[bit], step->begin, step->end, free});
        }
        break;
      case Kind::need: break;
    }
  }
}

}  // namespace lowtide
