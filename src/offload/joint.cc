#include "offload/joint.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/time_share.h"
#include "certify/certificate.h"
#include "offload/bound.h"
#include "offload/by_rule.h"
#include "offload/joint_search.h"
#include "plan/optimal.h"
#include "plan/replay.h"
#include "planner/realize.h"
#include "remat/stage_graph.h"

namespace lowtide::offload {
namespace {

using planner::Planned;
using strategy::Outcome;

/// All that is needed, kept: the answer where it fits.
Planned all_kept(const Graph& graph, Bytes budget) {
  return planner::plan_of(graph, remat::stage_order(remat::StageGraph(graph)), "keep-all", budget);
}

/// Of a whole limit, in addition to those of the searches.
constexpr double kShareOfBound = 0.3;

/// With moves alone, and then with both ways where that is wanted.
void search_with_residents(JointSearch& search, Ways ways, const Control& control) {
  if (search.is_good_enough()) return;
  search.run_with_residents(control.renewed());
  if (ways == Ways::both) search.run(/*reruns=*/true, control.renewed());
}

Planned only_rerun(const Graph& graph, Bytes budget, const Control& control, Bytes reserved) {
  Control whole = control.renewed();
  return planner::plan_within(graph, strategy::default_strategy(), budget, {}, whole, reserved);
}

/// The best plan of the ways. Each has the whole limit, so that more ways give no worse plan. The
/// buffers of copies are reserved, but for plans that do not move. `known`: what was found before,
/// by reruns alone too.
Planned searched(const Graph& graph, Bytes whole_budget, const Slower& slower, Ways ways,
                 const Control& control, Bytes whole_reserved,
                 std::optional<Planned> known = std::nullopt) {
  const Bytes buffers = slower.all_buffers();
  const Bytes budget = whole_budget - buffers, reserved = whole_reserved + buffers;
  JointSearch search(graph, budget, slower, ways, reserved);
  if (known) search.offer(*known);
  const Bytes floor = structural_floor(graph).bytes;
  const bool may_move_residents = slower.residents && ways != Ways::rerun;
  const bool may_keep_residents = !may_move_residents || floor <= budget;
  if (ways != Ways::rerun && may_keep_residents) search.run(/*reruns=*/false, control.renewed());
  const bool may_only_rerun = !known && (!may_move_residents || floor <= whole_budget);
  if (ways != Ways::move && may_only_rerun && !search.is_good_enough()) {
    search.offer(only_rerun(graph, whole_budget, control, whole_reserved));
  }
  if (ways == Ways::both && may_keep_residents) search.run(/*reruns=*/true, control.renewed());
  if (may_move_residents) search_with_residents(search, ways, control);
  return search.take();
}

/// By the rule of others, which knows one place.
Planned ruled(const Graph& graph, Bytes budget, const Slower& slower, Ways ways,
              const Control& control, Bytes reserved) {
  return by_rule(graph, budget - slower.buffers, slower, ways, control, reserved + slower.buffers);
}

/// The answer for one place alone, as one for a plan that may use both.
Planned for_both(Planned planned, const Slower& slower, PlaceIndex used) {
  if (!planned.plan || !planned.plan->slower || planned.plan->slower->second) return planned;
  SlowerMemory& memory = *planned.plan->slower;
  memory.lanes = slower.lanes;
  memory.second = SecondPlace{.begin = used == PlaceIndex::first ? memory.bytes : 0,
                              .lanes = slower.second->lanes,
                              .first_budget = slower.bytes,
                              .budget = slower.second->bytes};
  return planned;
}

/// The best plan of those with the first place alone, with the second alone, and with both. Each
/// search has the whole limit, so that both places together give no worse plan.
Planned searched_in_places(const Graph& graph, Bytes budget, const Slower& slower, Ways ways,
                           const Control& control, Bytes reserved) {
  const double enough = kGoodEnough * remat::StageGraph(graph).required_cost();
  const auto is_enough = [&](const Planned& best) {
    return best.plan && best.plan->cost <= enough;
  };
  Planned best = for_both(searched(graph, budget, only_first(slower), ways, control, reserved),
                          slower, PlaceIndex::first);
  if (is_enough(best)) return best;
  best = for_both(searched(graph, budget, only_second(slower), ways, control, reserved, best),
                  slower, PlaceIndex::second);
  if (is_enough(best)) return best;
  return searched(graph, budget, slower, ways, control, reserved, best);
}

/// The rule with the place with which its plan ends first.
Planned ruled_in_places(const Graph& graph, Bytes budget, const Slower& slower, Ways ways,
                        const Control& control, Bytes reserved) {
  Planned first =
      for_both(ruled(graph, budget, only_first(slower), ways, control.renewed(), reserved), slower,
               PlaceIndex::first);
  Planned second =
      for_both(ruled(graph, budget, only_second(slower), ways, control.renewed(), reserved), slower,
               PlaceIndex::second);
  const bool is_second = second.plan && (!first.plan || second.plan->cost < first.plan->cost);
  return is_second ? second : first;
}

/// Where not everything can be kept.
Planned with_less(const Graph& graph, Bytes budget, const Slower& slower, Ways ways,
                  const Control& control, Bytes reserved) {
  const bool has_two = slower.second && ways != Ways::rerun;
  if (is_rule(ways)) {
    return (has_two ? ruled_in_places : ruled)(graph, budget, slower, ways, control, reserved);
  }
  if (has_two) return searched_in_places(graph, budget, slower, ways, control, reserved);
  return searched(graph, budget, slower, ways, control, reserved);
}

/// In place of a bound for plans that only rerun. Without a plan there is none. `budget`: with the
/// buffers, which are memory of a plan that does not move.
void add_bound(const Graph& graph, const Lanes& lanes, Planned& planned, Bytes budget,
               const Control& control) {
  planned.certificate.reset();
  if (!planned.plan) return;
  Plan& plan = *planned.plan;
  const Control whole = control.renewed();
  Control part = share_of_time(whole, kShareOfBound);
  planned.certificate = lower_bound(graph, budget, lanes, plan, part);
  plan.lower_bound = planned.certificate->lower_bound;
  plan.model = planned.certificate->chain ? "any-order" : "fixed-order";
  planned.outcome = is_optimal(plan) ? Outcome::optimal : Outcome::feasible;
}

}  // namespace

Planned plan_with(const Graph& graph, Bytes budget, const Slower& slower, Ways ways,
                  Control& control, Bytes reserved_bytes) {
  const Control clock;
  Planned best = all_kept(graph, budget);
  best.reserved_bytes = reserved_bytes;
  if (!best.plan) {
    best = with_less(graph, budget, slower, ways, control, reserved_bytes);
  }
  if (ways != Ways::rerun) add_bound(graph, slower.fastest(), best, budget, control);
  best.seconds = clock.elapsed_seconds();
  if (best.plan) best.plan->seconds = best.seconds;
  return best;
}

}  // namespace lowtide::offload
