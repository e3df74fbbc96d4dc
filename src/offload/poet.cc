#include "offload/poet.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "base/error.h"
#include "offload/loads.h"
#include "offload/schedule.h"
#include "planner/realize.h"

#ifdef LOWTIDE_HIGHS
#include "solver/highs.h"
#include "strategy/checkmate/options.h"
#include "strategy/checkmate/refine.h"
#endif

namespace lowtide::offload {
namespace {

/// The order of runs and loads in a graph with loads.
class PoetOrder {
 public:
  PoetOrder(const Graph& graph, const remat::StageGraph& stages, const LoadGraph& loads)
      : stages_(stages), loads_(loads), places_(load_places(graph, loads)) {}

  std::vector<OpId> executions(const PoetAnswer& answer) {
    std::vector<std::vector<int>> reruns(stages_.num_stages());
    for (const remat::Event& event : answer.reruns) reruns[event.stage].push_back(event.op);
    auto load = answer.loads.begin();
    for (int t = 0; t < stages_.num_stages(); ++t) {
      for (; load != answer.loads.end() && load->stage == t; ++load) {
        order_.push_back(places_.load[stages_.value(load->value).tensor]);
      }
      std::ranges::sort(reruns[t]);
      for (const int i : reruns[t]) run(i);
      if (t != stages_.end()) run(t);
    }
    return std::move(order_);
  }

 private:
  /// With the loads of all that it makes, which are of values that are still there.
  void run(int stage) {
    OpId id = places_.op[stages_.stage(stage).op];
    do {
      order_.push_back(id);
      ++id;
    } while (id < loads_.graph.num_ops() && loads_.loaded[id] != kNone);
  }

  const remat::StageGraph& stages_;
  const LoadGraph& loads_;
  const LoadPlaces places_;
  std::vector<OpId> order_;
};

}  // namespace

#ifdef LOWTIDE_HIGHS

namespace {

using strategy::checkmate::Formulation;
using strategy::checkmate::Paging;
using strategy::checkmate::StageModel;

/// By solver::relaxation_seconds(), HiGHS takes about 5 s for the relaxation of so many rows.
constexpr double kMostPoetRows = 100'000;

/// By value: what copies cost, of those that may move.
std::vector<std::optional<Paging>> pagings_of(const Graph& graph, const remat::StageGraph& stages,
                                              const Lanes& lanes) {
  const std::vector<bool> may_move = movable(graph);
  std::vector<std::optional<Paging>> pagings(stages.num_values());
  for (int v = 0; v < stages.num_values(); ++v) {
    const remat::StageValue& value = stages.value(v);
    if (may_move[value.tensor]) {
      pagings[v] = {lanes.out.time(value.bytes), lanes.in.time(value.bytes)};
    }
  }
  return pagings;
}

/// A load of a value before each use of it that is not right after another, those first that free
/// the most memory for the longest time in the time of their copies.
std::vector<PoetLoad> possible_loads(const remat::StageGraph& stages,
                                     std::span<const std::optional<Paging>> pagings) {
  std::vector<std::pair<double, PoetLoad>> found;
  for (int v = 0; v < stages.num_values(); ++v) {
    if (!pagings[v]) continue;
    const remat::StageValue& value = stages.value(v);
    int before = value.producer;
    for (const int reader : value.readers) {
      const int gap = reader - before - 1;
      const double time = pagings[v]->out + pagings[v]->in;
      if (gap > 0) found.push_back({time / (gap * static_cast<double>(value.bytes)), {reader, v}});
      before = reader;
    }
  }
  std::ranges::sort(found);
  std::vector<PoetLoad> loads;
  for (const auto& [price, load] : found) loads.push_back(load);
  return loads;
}

/// A solution with the first of these loads and no reruns; nothing where all are not enough.
std::vector<double> first_solution(const StageModel& model, std::span<const PoetLoad> loads) {
  const auto with_first = [&](std::size_t count) {
    return strategy::checkmate::start_for(model, {}, loads.first(count));
  };
  std::size_t fewest = 0, most = loads.size();
  while (fewest < most) {
    const std::size_t middle = (fewest + most) / 2;
    if (with_first(middle).empty()) {
      fewest = middle + 1;
    } else {
      most = middle;
    }
  }
  return with_first(most);
}

/// So that a comparison can tell an optimum from the first solution.
void report_solution(const StageModel& model, std::span<const double> first,
                     std::span<const double> best, double bound, const Control& control) {
  const auto cost = [&](std::span<const double> values) {
    return model.cost_of(solver::objective(model.program(), values));
  };
  const std::string begun = first.empty() ? "" : fmt::format(" (at first {:.6g})", cost(first));
  control.report(fmt::format("poet: {} rows, solution {:.6g}{}, bound {:.6g}",
                             model.program().num_rows(), cost(best), begun, model.cost_of(bound)));
}

}  // namespace

std::optional<PoetAnswer> solve_poet(const Graph& graph, const remat::StageGraph& stages,
                                     Bytes budget, const Lanes& lanes, const Control& control) {
  const std::vector<std::optional<Paging>> pagings = pagings_of(graph, stages, lanes);
  strategy::checkmate::refuse_too_large(
      graph, StageModel::size(graph, stages, budget, Formulation::strong, pagings), kMostPoetRows,
      ", or the strategy capuchin");
  const StageModel model(graph, stages, budget, Formulation::strong, {}, pagings);
  solver::SolverRequest asked;
  asked.start = first_solution(model, possible_loads(stages, pagings));
  const solver::Solved solved = solver::solve_with_highs(model.program(), asked, control);
  const std::vector<double>& best = solved.values.empty() ? asked.start : solved.values;
  if (best.empty()) return std::nullopt;
  report_solution(model, asked.start, best, solved.bound, control);
  return PoetAnswer{model.events_of(best), model.loads_of(best),
                    model.cost_of(solver::objective(model.program(), best)),
                    solved.status == solver::Solved::Status::optimal};
}

#else

std::optional<PoetAnswer> solve_poet(const Graph&, const remat::StageGraph&, Bytes, const Lanes&,
                                     const Control&) {
  throw InputError(
      "the strategy poet needs the solver HiGHS, without which this Lowtide was built: use the "
      "strategy capuchin, or build with -DLOWTIDE_HIGHS=ON.");
}

#endif

Plan plan_of_answer(const Graph& graph, const remat::StageGraph& stages, const PoetAnswer& answer,
                    const Lanes& lanes, Bytes budget, const Control& control) {
  std::vector<std::optional<double>> prices(graph.tensors().size());
  for (const PoetLoad& load : answer.loads) prices[stages.value(load.value).tensor] = 0;
  const LoadGraph loads = with_loads(graph, prices, Reruns::of_all);
  const Plan lowered =
      planner::lower_in_place(loads.graph, PoetOrder(graph, stages, loads).executions(answer));
  return schedule(graph, loads, lowered, {lanes}, budget, kHurries, control);
}

std::optional<Plan> poet(const Graph& graph, Bytes budget, const Lanes& lanes,
                         const Control& control) {
  const remat::StageGraph stages(graph);
  const auto answer = solve_poet(graph, stages, budget, lanes, control);
  if (!answer) return std::nullopt;
  return plan_of_answer(graph, stages, *answer, lanes, budget, control);
}

}  // namespace lowtide::offload
