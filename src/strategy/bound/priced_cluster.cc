#include "strategy/bound/priced_cluster.h"

#include <algorithm>
#include <bit>
#include <cassert>

namespace lowtide {
namespace {

/// All subsets of `set`, the largest first.
template <class Visit>
void for_each_subset(unsigned set, const Visit& visit) {
  for (unsigned s = set;; s = (s - 1) & set) {
    visit(static_cast<std::uint16_t>(s));
    if (s == 0) return;
  }
}

}  // namespace

PricedCluster::PricedCluster(const StageGraph& graph, std::span<const BoundOp> ops) {
  for (const BoundOp& op : ops) {
    values_.insert(values_.end(), op.outputs.begin(), op.outputs.end());
  }
  assert(values_.size() <= Cluster::kMostValues);
  for (int v : values_) bytes_.push_back(static_cast<double>(graph.value(v).bytes));
  for (const BoundOp& op : ops) {
    runs_.push_back({subset(op.inputs), subset(op.outputs), op.deadline, op.cost});
  }
  int before = kNone;
  for (int stage : touching_stages(graph, ops)) {
    if (before != kNone) add_gap(graph, before, stage);
    add_first_run(graph, stage);
    before = stage;
  }
  steps_.shrink_to_fit();
}

/// Stages that make or read a value of the cluster, and those after which one of its ops may not
/// run again.
std::vector<int> PricedCluster::touching_stages(const StageGraph& graph,
                                                std::span<const BoundOp> ops) const {
  std::vector<int> touching;
  int last = 0;
  for (int v : values_) {
    const StageValue& value = graph.value(v);
    touching.push_back(value.producer);
    touching.insert(touching.end(), value.readers.begin(), value.readers.end());
    last = std::max(last, value.last_reader());
  }
  for (const BoundOp& op : ops) {
    if (op.deadline > op.stage && op.deadline < last) touching.push_back(op.deadline);
  }
  std::ranges::sort(touching);
  const auto repeated = std::ranges::unique(touching);
  touching.erase(repeated.begin(), repeated.end());
  return touching;
}

PricedCluster::Subset PricedCluster::subset(std::span<const int> values) const {
  Subset result = 0;
  for (std::size_t bit = 0; bit < values_.size(); ++bit) {
    if (std::ranges::find(values, values_[bit]) != values.end()) result |= Subset(1u << bit);
  }
  return result;
}

/// What later first runs read, and what running those values' ops again takes.
PricedCluster::Subset PricedCluster::useful_after(const StageGraph& graph, int stage) const {
  Subset useful = 0;
  for (std::size_t bit = 0; bit < values_.size(); ++bit) {
    if (graph.value(values_[bit]).last_reader() > stage) useful |= Subset(1u << bit);
  }
  for (auto run = runs_.rbegin(); run != runs_.rend(); ++run) {
    if (run->out & useful) useful |= run->in;
  }
  return useful;
}

/// Between the first runs of two neighbouring touching stages: what runs again right after the one
/// is held, what runs again right before the other is not.
void PricedCluster::add_gap(const StageGraph& graph, int before, int after) {
  const auto useless = static_cast<Subset>(~useful_after(graph, before));
  steps_.push_back({Kind::close, useless});
  if (before + 1 < after) {
    steps_.push_back({Kind::choose, 0, before + 1, after});
    steps_.push_back({Kind::pay, 0, before + 1, after});
  }
}

void PricedCluster::add_first_run(const StageGraph& graph, int stage) {
  Subset in = 0;
  Subset out = 0;
  for (std::size_t bit = 0; bit < values_.size(); ++bit) {
    const StageValue& value = graph.value(values_[bit]);  // a stage may read far more than these
    if (std::ranges::binary_search(value.readers, stage)) in |= Subset(1u << bit);
    if (value.producer == stage) out |= Subset(1u << bit);
  }
  const auto given = static_cast<Subset>(in | out);
  if (!steps_.empty()) steps_.push_back({Kind::choose, given, stage, stage + 1});
  if (in != 0) steps_.push_back({Kind::need, in});
  if (out != 0) steps_.push_back({Kind::make, out});
  steps_.push_back({Kind::pay, given, stage, stage + 1});
}

/// Goes through the steps. Values that are there are either certain, there in every case, or loose:
/// a case is a subset of the loose values, with the least that it costs.
class PricedCluster::Solving {
 public:
  Solving(const PricedCluster& cluster, const Prices& prices, Scratch& scratch)
      : cluster_(cluster), prices_(prices), scratch_(scratch) {
    scratch_.changes.clear();
    scratch_.bytes.clear();
    scratch_.from.clear();
    scratch_.least.resize(
        std::max(scratch_.least.size(), std::size_t{1} << cluster.values_.size()));
    scratch_.least[0] = 0;
  }

  double run(std::vector<Hold>& holds) {
    for (const Step& step : cluster_.steps_) take(step);
    Subset best = 0;
    for_each_subset(loose_, [&](Subset s) { best = least(s) < least(best) ? s : best; });
    scratch_.work += subsets(loose_);
    const double cost = certain_cost_ + least(best);
    trace_back(best, holds);
    return cost;
  }

 private:
  double& least(unsigned s) { return scratch_.least[s]; }
  static double subsets(unsigned set) { return static_cast<double>(1u << std::popcount(set)); }

  void take(const Step& step) {
    switch (step.kind) {
      case Kind::make: certain_ |= step.values; break;
      case Kind::choose: choose(step); break;
      case Kind::close:
        certain_ &= static_cast<Subset>(~step.values);
        for_each_bit(loose_ & step.values, [&](Subset bit) { close(bit); });
        break;
      case Kind::pay: pay(step); break;
      case Kind::need: need(loose_ & step.values); break;
    }
  }

  template <class Visit>
  static void for_each_bit(unsigned set, const Visit& visit) {
    for (; set != 0; set &= set - 1) visit(static_cast<Subset>(set & (0u - set)));
  }

  /// A run where memory was free until now is none: it was as good earlier. A drop where memory
  /// stays free, or that comes free, can wait.
  void choose(const Step& step) {
    if (was_priced_) {
      for (const Run& run : cluster_.runs_) {
        if (step.begin <= run.deadline) try_run(run);
      }
    }
    if (prices_.over(step.begin, step.end) <= 0) return;
    for_each_bit((certain_ | loose_) & ~step.values, [&](Subset bit) {
      certain_ & bit ? loosen(bit) : drop(bit);
    });
  }

  void try_run(const Run& run) {
    const Subset lacking = run.out & loose_;
    const unsigned there = run.in | (run.out & (certain_ | loose_));
    if (lacking == 0 || (there & ~(certain_ | loose_)) != 0) return;
    Subset* from = remember();
    for_each_subset(loose_ & ~there, [&](Subset rest) {
      const auto to = static_cast<Subset>(rest | (there & loose_));
      for (unsigned gone = lacking; gone != 0; gone = (gone - 1) & lacking) {
        improve(to, static_cast<Subset>(to & ~gone), run.cost, from);
      }
    });
  }

  /// A value that was certain is so no more.
  void loosen(Subset bit) {
    for_each_subset(loose_, [&](Subset s) { least(s | bit) = least(s); });
    scratch_.work += subsets(loose_);
    certain_ &= static_cast<Subset>(~bit);
    loose_ |= bit;
    scratch_.changes.push_back({.kind = Kind::make, .values = bit});
  }

  void drop(Subset bit) {
    Subset* from = remember();
    for_each_subset(loose_ & ~bit, [&](Subset s) {
      improve(s, static_cast<Subset>(s | bit), 0, from);
    });
  }

  void close(Subset bit) {
    drop(bit);
    loose_ &= static_cast<Subset>(~bit);
  }

  void need(Subset bits) {
    if (bits == 0) return;
    loose_ &= static_cast<Subset>(~bits);
    certain_ |= bits;
    // Smaller subsets first would overwrite what is still to be read; larger ones do not.
    for_each_subset(loose_, [&](Subset s) { needed_.push_back(least(s | bits)); });
    auto next = needed_.begin();
    for_each_subset(loose_, [&](Subset s) { least(s) = *next++; });
    needed_.clear();
    scratch_.work += subsets(loose_);
    scratch_.changes.push_back({.kind = Kind::need, .values = bits});
  }

  void pay(const Step& step) {
    scratch_.changes.push_back({.kind = Kind::pay,
                                .values = step.values,
                                .certain = certain_,
                                .begin = step.begin,
                                .end = step.end});
    const double price = prices_.over(step.begin, step.end);
    was_priced_ = price > 0;
    if (!was_priced_) return;
    for_each_bit(certain_ & ~step.values, [&](Subset bit) {
      certain_cost_ += price * cluster_.bytes_[std::countr_zero(bit)];
    });
    if (loose_ == 0) return;
    add_up_bytes();
    for_each_subset(loose_, [&](Subset s) {
      least(s) += price * scratch_.bytes[s & ~unsigned{step.values}];
    });
    scratch_.work += subsets(loose_);
  }

  void add_up_bytes() {
    if (!scratch_.bytes.empty()) return;
    scratch_.bytes.push_back(0);
    for (double bytes : cluster_.bytes_) {
      const std::size_t half = scratch_.bytes.size();
      scratch_.bytes.resize(2 * half);
      for (std::size_t s = 0; s < half; ++s) scratch_.bytes[half + s] = scratch_.bytes[s] + bytes;
    }
  }

  void improve(Subset to, Subset source, double cost, Subset* from) {
    if (least(source) + cost >= least(to)) return;
    least(to) = least(source) + cost;
    from[to] = source;
  }

  /// A choice begins: so far, each subset comes from itself.
  Subset* remember() {
    const std::size_t begin = scratch_.from.size();
    scratch_.from.resize(begin + std::bit_floor(unsigned{loose_}) * 2);
    Subset* from = scratch_.from.data() + begin;
    for_each_subset(loose_, [&](Subset s) { from[s] = s; });
    scratch_.work += subsets(loose_);
    scratch_.changes.push_back({.kind = Kind::choose, .from = begin});
    return from;
  }

  void trace_back(Subset state, std::vector<Hold>& holds) const {
    const auto& changes = scratch_.changes;
    for (auto change = changes.rbegin(); change != changes.rend(); ++change) {
      switch (change->kind) {
        case Kind::make: state &= static_cast<Subset>(~change->values); break;
        case Kind::need: state |= change->values; break;
        case Kind::pay:
          for_each_bit(state | change->certain, [&](Subset bit) {
            holds.push_back({cluster_.values_[std::countr_zero(bit)], change->begin, change->end,
                             (change->values & bit) != 0});
          });
          break;
        case Kind::choose:
        case Kind::close: state = scratch_.from[change->from + state]; break;
      }
    }
  }

  const PricedCluster& cluster_;
  const Prices& prices_;
  Scratch& scratch_;
  Subset certain_ = 0;
  Subset loose_ = 0;
  double certain_cost_ = 0;
  bool was_priced_ = false;
  std::vector<double> needed_;
};

double PricedCluster::solve(const Prices& prices, Scratch& scratch, std::vector<Hold>& holds) const {
  return Solving(*this, prices, scratch).run(holds);
}

}  // namespace lowtide
