#include "bounds/split.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "bounds/certificate.h"
#include "bounds/cost.h"
#include "bounds/price_bound.h"

namespace lowtide::bounds {
namespace {

constexpr std::size_t kMostCases = 16;
/// The first step must raise each case by this share of (known bound - cost of every op once).
constexpr double kWorth = 0.01;
bool reads(const remat::StageGraph& graph, int t, int value) {
  return std::ranges::binary_search(graph.value(value).readers, t);
}

/// Bytes of a rerun's inputs that other ops would have to make again first.
Bytes taken_for_granted(const remat::StageGraph& graph, const remat::Stage& stage) {
  Bytes bytes = 0;
  for (int v : stage.inputs) {
    const int maker = graph.value(v).producer;
    if (graph.stage(maker).latest > maker) bytes += graph.value(v).bytes;
  }
  return bytes;
}

/// Whether prices are high enough that a rerun costs about as much as holding the value.
bool is_at_its_price(const remat::StageGraph& graph, const remat::Prices& prices,
                     const remat::StageValue& value) {
  const double held =
      prices.over(value.producer + 1, value.last_reader()) * static_cast<double>(value.bytes);
  return held > 0.5 * graph.stage(value.producer).cost;
}

/// The parts of a graph of stages.
struct Parts {
  std::vector<remat::Stage> stages;
  std::vector<remat::StageValue> values;
};

/// Raises the numbers of all stages from `at` on by one, to insert another.
void make_gap(Parts& all, int at) {
  const auto now = [&](int& t) { t += t >= at; };
  for (remat::Stage& stage : all.stages) {
    now(stage.deadline);
    now(stage.latest);
  }
  for (remat::StageValue& value : all.values) {
    now(value.producer);
    std::ranges::for_each(value.readers, now);
  }
}

/// Inserts a stage at `at` that repeats the run of stage `made`.
void insert_run(Parts& all, int at, int made) {
  remat::Stage again = all.stages[made];
  again.op = kNone;
  again.outputs.clear();
  again.deadline = again.latest = at;
  for (int v : again.inputs) {
    std::vector<int>& readers = all.values[v].readers;
    readers.insert(std::ranges::lower_bound(readers, at), at);
  }
  all.stages.insert(all.stages.begin() + at, std::move(again));
}

/// The value is in memory from stage `from` on; before, only where it is made or read.
void take_out(Parts& all, int value, int from) {
  remat::StageValue& v = all.values[value];
  for (int t = v.producer; t <= v.last_reader(); ++t) {
    const bool touches = t == v.producer || std::ranges::binary_search(v.readers, t);
    if (touches || t >= from) all.stages[t].workspace += v.bytes;
    std::erase(all.stages[t].inputs, value);
  }
  std::erase(all.stages[v.producer].outputs, value);
  v.readers.clear();
}

}  // namespace

std::vector<int> absences(const remat::StageGraph& graph, int value) {
  const remat::StageValue& v = graph.value(value);
  std::vector<int> stages{kNone};
  const int last = std::min(v.last_reader(), graph.stage(v.producer).latest);
  for (int t = v.producer + 1; t < last; ++t) {
    if (!reads(graph, t, value)) stages.push_back(t);
  }
  return stages;
}

std::optional<int> value_to_split(const remat::StageGraph& graph, const remat::Prices& prices) {
  std::optional<int> best;
  Bytes most = 0;
  for (int v = 0; v < graph.num_values(); ++v) {
    const remat::StageValue& value = graph.value(v);
    const remat::Stage& maker = graph.stage(value.producer);
    const bool may_split =
        maker.outputs.size() == 1 && !value.readers.empty() && maker.latest > value.producer;
    if (!may_split || !is_at_its_price(graph, prices, value)) continue;
    const Bytes bytes = taken_for_granted(graph, maker);
    if (bytes <= most || absences(graph, v).size() > kMostCases) continue;
    most = bytes;
    best = v;
  }
  return best;
}

remat::StageGraph stages_of_case(const remat::StageGraph& graph, int value, int absent) {
  const int made = graph.value(value).producer;
  double views_cost = graph.required_cost();
  for (const remat::Stage& stage : graph.stages()) views_cost -= stage.cost;
  Parts all{graph.stages(), graph.values()};
  if (absent == kNone) {
    take_out(all, value, made);
  } else {
    make_gap(all, absent + 1);
    insert_run(all, absent + 1, made);
    take_out(all, value, absent + 1);
  }
  return {std::move(all.stages), std::move(all.values), graph.resident_bytes(),
          std::max(0.0, views_cost)};
}

namespace {

/// A bound on the plans of a case; starts from prices for the undivided graph.
PriceBound started(const remat::StageGraph& of_case, Bytes budget, const remat::Prices& prices,
                   int absent) {
  std::vector<double> start = prices.each();
  if (absent != kNone) start.insert(start.begin() + absent + 1, 0);
  PriceBound bound(of_case, budget);
  bound.start_from(std::move(start));
  return bound;
}

/// The bound on the plans of one case, raised step by step.
class DividedCase {
 public:
  DividedCase(const remat::StageGraph& stages, int value, int absent, Bytes budget,
              const remat::Prices& prices, double work)
      : absent_(absent),
        stages_(stages_of_case(stages, value, absent)),
        bound_(started(stages_, budget, prices, absent)),
        steps_(bound_, work) {}

  /// Infinite when there are no such plans.
  double value() const { return bound_.infeasible() ? kNever : bound_.value(); }

  /// False when nothing is left to do.
  bool raise(const Control& control) {
    return !bound_.infeasible() && steps_.next(Control(), control);
  }

  certify::Certificate::Case proof(const Graph& graph, const remat::StageGraph& whole) const {
    return {absent_ == kNone ? kNone : whole.stage(absent_).op, proof_of(graph, stages_, bound_)};
  }

 private:
  int absent_;
  remat::StageGraph stages_;
  PriceBound bound_;  // of stages_
  BoundSteps steps_;  // of bound_
};

}  // namespace

std::optional<SplitBound> split_bound(const Graph& graph, const remat::StageGraph& stages,
                                      Bytes budget, const remat::Prices& prices, double known,
                                      double work, const Control& control) {
  const std::optional<int> value = value_to_split(stages, prices);
  if (!value) return std::nullopt;
  const double worth = known + kWorth * (known - stages.required_cost());
  std::vector<std::unique_ptr<DividedCase>> cases;
  for (int absent : absences(stages, *value)) {
    cases.push_back(std::make_unique<DividedCase>(stages, *value, absent, budget, prices, work));
    if (control.should_stop()) return std::nullopt;
    cases.back()->raise(control);
    if (cases.back()->value() <= worth) return std::nullopt;
  }
  const auto least = [&]() -> DividedCase& {
    return **std::ranges::min_element(cases, {}, [](const auto& c) { return c->value(); });
  };
  while (!control.should_stop() && least().raise(control)) {
    control.report(fmt::format("bound {:.3f}% in {} cases",
                               100 * (least().value() / stages.required_cost() - 1), cases.size()));
  }
  SplitBound result{least().value(), {stages.value(*value).tensor, {}}};
  if (result.value == kNever) return std::nullopt;
  for (const auto& c : cases) result.proof.cases.push_back(c->proof(graph, stages));
  return result;
}

}  // namespace lowtide::bounds
