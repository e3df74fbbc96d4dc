#include "strategy/bound/cluster.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

namespace lowtide {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// All subsets of `set`, the largest first.
template <class Visit>
void for_each_subset(unsigned set, const Visit& visit) {
  for (unsigned s = set;; s = (s - 1) & set) {
    visit(static_cast<std::uint16_t>(s));
    if (s == 0) return;
  }
}

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

void Cluster::add(Step step) {
  step.open = open_;
  choices_ += step.kind == Kind::run || step.kind == Kind::drop;
  work_ += static_cast<double>(1u << std::popcount(step.open));
  steps_.push_back(step);
}

/// Values that are of no use any more are dropped.
void Cluster::close(Subset useful) {
  for (std::size_t bit = 0; bit < values_.size(); ++bit) {
    const auto out = Subset(1u << bit);
    if ((open_ & out) == 0 || (useful & out) != 0) continue;
    add({.kind = Kind::drop, .out = out});
    open_ &= static_cast<Subset>(~out);
  }
}

void Cluster::add_choices(int stage) {
  for (const BoundOp& op : ops_) {
    const auto out = static_cast<Subset>(subset(op.outputs) & open_);
    if (out == 0 || stage > op.deadline) continue;
    add({.kind = Kind::run, .in = subset(op.inputs), .out = out, .cost = op.cost});
  }
  for (std::size_t bit = 0; bit < values_.size(); ++bit) {
    const auto out = Subset(1u << bit);
    if (open_ & out) add({.kind = Kind::drop, .out = out});
  }
}

/// Between the first runs of two neighbouring touching stages: what runs again right after the one
/// is held, what runs again right before the other is not.
void Cluster::add_gap(const StageGraph& graph, int before, int after) {
  close(useful_after(graph, before));
  gaps_.push_back({.before = before, .after = after, .begin = steps_.size()});
  if (before + 1 < after) {
    add_choices(before + 1);
    add({.kind = Kind::pay, .begin = before + 1, .end = after});
  }
  gaps_.back().choices = steps_.size();
  add_choices(after);
}

void Cluster::add_first_run(const StageGraph& graph, int stage) {
  const Subset in = subset(graph.stage(stage).inputs);
  const Subset out = subset(graph.stage(stage).outputs);
  if (in != 0) add({.kind = Kind::need, .in = in});
  if (out != 0) add({.kind = Kind::make, .out = out});
  open_ |= out;
  const auto given = static_cast<Subset>(in | out);
  add({.kind = Kind::pay, .in = given, .begin = stage, .end = stage + 1});
}

double Cluster::solve(const Prices& prices, Scratch& scratch, std::vector<Hold>& holds) const {
  scratch.least.assign(bytes_.size(), kNever);
  scratch.least[0] = 0;
  scratch.from.resize(std::max(scratch.from.size(), choices_ * bytes_.size()));
  scratch.chosen = 0;
  for (const Step& step : steps_) take(step, prices, scratch);
  const Subset last = cheapest(scratch.least);
  trace_back(scratch, last, holds);
  return scratch.least[last];
}

Cluster::Subset Cluster::cheapest(const std::vector<double>& least) const {
  Subset best = 0;
  for_each_subset(open_, [&](Subset s) { best = least[s] < least[best] ? s : best; });
  return best;
}

void Cluster::take(const Step& step, const Prices& prices, Scratch& scratch) const {
  std::vector<double>& least = scratch.least;
  Subset* from = scratch.from.data() + scratch.chosen * bytes_.size();
  const auto improve = [&](Subset to, Subset source, double cost) {
    if (least[source] + cost >= least[to]) return;
    least[to] = least[source] + cost;
    from[to] = source;
  };
  switch (step.kind) {
    case Kind::make:
      for_each_subset(step.open, [&](Subset s) {
        least[s | step.out] = least[s];
        least[s] = kNever;
      });
      break;
    case Kind::run: {
      const auto there = static_cast<Subset>(step.in | step.out);
      for_each_subset(step.open, [&](Subset s) { from[s] = s; });
      for_each_subset(step.open & ~there, [&](Subset rest) {
        const auto to = static_cast<Subset>(rest | there);
        for (unsigned lacking = step.out; lacking != 0; lacking = (lacking - 1) & step.out) {
          improve(to, static_cast<Subset>(to & ~lacking), step.cost);
        }
      });
      ++scratch.chosen;
      break;
    }
    case Kind::drop:
      for_each_subset(step.open & ~step.out, [&](Subset s) {
        const auto with = static_cast<Subset>(s | step.out);
        from[s] = s;
        from[with] = with;
        improve(s, with, 0);
      });
      ++scratch.chosen;
      break;
    case Kind::pay: {
      const double price = prices.over(step.begin, step.end);
      if (price <= 0) break;
      for_each_subset(step.open, [&](Subset s) { least[s] += price * bytes_[s & ~step.in]; });
      break;
    }
    case Kind::need:
      for_each_subset(step.open, [&](Subset s) {
        if ((s & step.in) != step.in) least[s] = kNever;
      });
      break;
  }
}

void Cluster::trace_back(const Scratch& scratch, Subset state, std::vector<Hold>& holds) const {
  const Subset* from = scratch.from.data() + choices_ * bytes_.size();
  for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
    switch (step->kind) {
      case Kind::make: state &= static_cast<Subset>(~step->out); break;
      case Kind::run:
      case Kind::drop:
        from -= bytes_.size();
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

/// From the least costs behind a step to those before it, for the subsets that are open there.
void Cluster::take_back(std::size_t index, const Prices& prices, std::vector<double>& least) const {
  const Step& step = steps_[index];
  const Subset open_behind = index + 1 < steps_.size() ? steps_[index + 1].open : open_;
  switch (step.kind) {
    case Kind::make:
      for_each_subset(step.open, [&](Subset s) { least[s] = least[s | step.out]; });
      break;
    case Kind::run:
      for_each_subset(step.open, [&](Subset s) {
        if ((s & step.in) != step.in) return;
        least[s] = std::min(least[s], least[s | step.out] + step.cost);
      });
      break;
    case Kind::drop: {
      const bool must = (open_behind & step.out) == 0;
      for_each_subset(step.open & ~step.out, [&](Subset s) {
        double& with = least[s | step.out];
        with = must ? least[s] : std::min(with, least[s]);
      });
      break;
    }
    case Kind::pay: {
      const double price = prices.over(step.begin, step.end);
      for_each_subset(step.open, [&](Subset s) { least[s] += price * bytes_[s & ~step.in]; });
      break;
    }
    case Kind::need:
      for_each_subset(step.open, [&](Subset s) {
        if ((s & step.in) != step.in) least[s] = kNever;
      });
      break;
  }
}

std::vector<Cluster::Completion> Cluster::completions(const Prices& prices, int num_stages) const {
  std::vector<Completion> result(num_stages, {0, {0}});
  std::vector<double> least(bytes_.size());
  auto gap = gaps_.rbegin();
  for (std::size_t k = steps_.size(); k-- > 0;) {
    take_back(k, prices, least);
    if (gap == gaps_.rend()) continue;
    const Subset open = steps_[gap->choices].open;
    if (k == gap->choices) {
      result[gap->after] = {open, least};
      for (int t = gap->before + 2; t < gap->after; ++t) {
        // As if the gap began there: pay from there on, after the same choices.
        result[t] = {open, least};
        const double price = prices.over(t, gap->after);
        for_each_subset(open, [&](Subset s) { result[t].least[s] += price * bytes_[s]; });
        for (std::size_t c = k - 1; c-- > gap->begin;) take_back(c, prices, result[t].least);
      }
    }
    if (k != gap->begin) continue;
    if (gap->begin < gap->choices) result[gap->before + 1] = {open, least};
    ++gap;
  }
  const int first = gaps_.empty() ? 0 : gaps_.front().before;
  for (int t = 0; t <= first; ++t) result[t] = {0, {least[0]}};
  return result;
}

}  // namespace lowtide
