#include "fuzz/plan_answers.h"

#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "bounds/budget_floor.h"
#include "certify/check.h"
#include "certify/io.h"
#include "layout/sections.h"
#include "plan/io.h"
#include "plan/places.h"
#include "plan/verify.h"
#include "support/brute_force.h"
#include "support/cheapest_sequence.h"
#include "support/plan_memory.h"

namespace lowtide::testing {
namespace {

using planner::Planned;
using strategy::Outcome;

constexpr double kRounding = 1e-8;  // bounds are rounded down

bool is_at_most(double a, double b) {
  return a <= b + kRounding * std::max(std::abs(a), std::abs(b));
}

/// The ops that a plan runs. View ops do not count.
std::vector<OpId> runs_of(const Graph& graph, const Plan& plan) {
  std::vector<OpId> runs;
  for (const Action& action : plan.actions) {
    if (action.verb == Verb::run && !graph.is_view_op(action.index)) runs.push_back(action.index);
  }
  return runs;
}

/// Whether runs keep the order of the graph: the first ones, and where `in_stages` also all others
/// between two of those.
bool keeps_order(const Graph& graph, const Plan& plan, bool in_stages) {
  OpId first = kNone;  // the last op that ran for the first time
  OpId again = kNone;  // the last op that ran again since then
  std::vector<bool> has_run(graph.ops().size());
  for (OpId op : runs_of(graph, plan)) {
    OpId& last = has_run[op] ? again : first;
    if (op <= last && (!has_run[op] || in_stages)) return false;
    last = op;
    if (!has_run[op]) again = kNone;
    has_run[op] = true;
  }
  return true;
}

/// Whether CheapestSequence is for such graphs.
bool has_all_sequences(const Graph& graph) {
  constexpr int kMostOps = 8, kMostValues = 12;
  const auto is_value = [](const Tensor& tensor) { return tensor.kind == Kind::value; };
  const auto is_view = [](const Tensor& tensor) { return tensor.alias_of != kNone; };
  const auto writes = [](const Op& op) { return !op.mutates.empty(); };
  return graph.num_ops() <= kMostOps &&
         std::ranges::count_if(graph.tensors(), is_value) <= kMostValues &&
         std::ranges::none_of(graph.tensors(), is_view) &&
         std::ranges::none_of(graph.ops(), writes);
}

/// Nothing for plans that it does not know.
std::optional<Sequences> sequences_of(std::string_view model) {
  if (model == "any-order") return Sequences::any_order;
  if (model == "fixed-order") return Sequences::fixed_order;
  if (model == "stages") return Sequences::staged;
  return std::nullopt;
}

bool same_plan(const Plan& a, const Plan& b) {
  return a.actions == b.actions && a.layout == b.layout && a.slower == b.slower &&
         a.cost == b.cost && a.peak_bytes == b.peak_bytes && a.budget_bytes == b.budget_bytes &&
         a.lower_bound == b.lower_bound && a.model == b.model && a.strategy == b.strategy;
}

}  // namespace

PlanTally& PlanTally::operator+=(const PlanTally& other) {
  graphs += other.graphs;
  answers += other.answers;
  plans += other.plans;
  refusals += other.refusals;
  bounds += other.bounds;
  packings += other.packings;
  checks += other.checks;
  return *this;
}

std::string format_tally(const PlanTally& tally) {
  return fmt::format("{} graphs, {} answers, {} plans, {} budgets named, {} bounds, {} packings, "
                     "{} checks",
                     tally.graphs, tally.answers, tally.plans, tally.refusals, tally.bounds,
                     tally.packings, tally.checks);
}

PlanAnswers::PlanAnswers(const Graph& graph)
    : graph_(graph), floor_(bounds::budget_floor(graph, 5000)) {
  tally_.graphs = 1;
}

void PlanAnswers::take(const Planned& planned, Bytes budget, const std::string& what,
                       const offload::Slower* slower) {
  ++tally_.answers;
  if (!planned.plan) {
    check(planned.outcome == Outcome::infeasible || planned.outcome == Outcome::stopped,
          "{}: no plan, but feasible", what);
    check(!planned.message.empty(), "{}: no reason", what);
    check(!planned.smallest_budget || slower != nullptr || *planned.smallest_budget > budget,
          "{}: the smallest budget is no larger", what);
    if (!planned.smallest_plan) return;
    const Bytes whole = *planned.smallest_budget + planned.reserved_bytes;
    check_plan(*planned.smallest_plan, whole, what + ", the smallest plan");
    return;
  }
  check(planned.outcome == Outcome::feasible || planned.outcome == Outcome::optimal,
        "{}: a plan, but not feasible", what);
  check(planned.plan->budget_bytes.has_value(), "{}: no budget", what);
  check_plan(*planned.plan, budget, what);
  check_places(*planned.plan, slower, what);
  take_bounds(planned, what);
}

void PlanAnswers::check_plan(const Plan& plan, Bytes budget, const std::string& what) {
  ++tally_.plans;
  const auto violation = verify(graph_, plan, budget);
  check(!violation, "{}: {}", what, violation ? violation->message : "");
  const PlanMemory memory = memory_of(graph_, plan);
  check(memory.peak_bytes == plan.peak_bytes, "{}: a peak of {}, not of {}", what,
        memory.peak_bytes, plan.peak_bytes);
  check(memory.peak_bytes <= budget, "{}: the peak exceeds the budget", what);
  check(plan.layout.has_value(), "{}: no addresses", what);
  check(memory.has_all_addresses, "{}: an address is missing", what);
  check(!memory.overlaps, "{}: buffers overlap", what);
  check(memory.arena_bytes == plan.layout->arena_bytes, "{}: an arena of {}, not of {}", what,
        memory.arena_bytes, plan.layout->arena_bytes);
  check(layout::needed_bytes(graph_, plan) <= budget, "{}: needs more than the budget", what);
  check_addresses(plan, what);
  check_files(plan, what);
  const bool moves_residents = plan.slower && !plan.slower->residents.empty();
  const bool moves = std::ranges::any_of(
      plan.actions, [](const Action& action) { return moves_values(action.verb); });
  check(moves || plan.peak_bytes >= floor_, "{}: within less than the floor", what);
  plans_.push_back(plan);
  found_.push_back({what, &plans_.back(), keeps_order(graph_, plan, /*in_stages=*/false),
                    keeps_order(graph_, plan, /*in_stages=*/true), moves || moves_residents,
                    moves_residents});
}

void PlanAnswers::check_addresses(const Plan& plan, const std::string& what) {
  if (!graph_.executable()) return;
  for (const auto& placements : plan.layout->placements) {
    for (const Placement& placed : placements) {
      check(placed.offset % graph_.alignment() == 0, "{}: an address that is not aligned", what);
    }
  }
}

void PlanAnswers::check_places(const Plan& plan, const offload::Slower* slower,
                               const std::string& what) {
  if (!plan.slower) return;
  check(slower != nullptr, "{}: moves values", what);
  check(slower->has_room(*plan.slower), "{}: more in slower memory than is allowed", what);
  check(plan.slower->residents.empty() || slower->residents, "{}: moves residents", what);
}

void PlanAnswers::check_files(const Plan& plan, const std::string& what) {
  const std::string text = format_plan(plan);
  check(same_plan(parse_plan(text), plan), "{}: changes when written and read", what);
}

void PlanAnswers::take_bounds(const Planned& planned, const std::string& what) {
  const Plan& plan = *planned.plan;
  const auto& certificate = planned.certificate;
  const certify::Certificate::Moves* moves =
      certificate && certificate->moves ? &*certificate->moves : nullptr;
  if (plan.lower_bound) {
    ++tally_.bounds;
    check(is_at_most(*plan.lower_bound, plan.cost), "{}: a bound above the cost", what);
    bounds_.push_back({what, *plan.lower_bound, *plan.budget_bytes, plan.model, moves != nullptr,
                       moves != nullptr && moves->residents});
  }
  check(planned.outcome != Outcome::optimal || is_at_most(plan.cost, plan.lower_bound.value_or(-1)),
        "{}: called optimal, costs {} above its bound of {}", what, plan.cost,
        plan.lower_bound.value_or(-1));
  if (certificate) check_certificate(planned, what);
}

void PlanAnswers::check_certificate(const Planned& planned, const std::string& what) {
  const certify::Certificate& certificate = *planned.certificate;
  const std::string text = certify::format_certificate(certificate);
  const certify::Certificate again = certify::parse_certificate(text);
  check(certify::format_certificate(again) == text,
        "{}: a certificate that changes when written and read", what);
  const auto verdict = certify::proved_bound(graph_, again);
  const auto* refused = std::get_if<certify::Refused>(&verdict);
  check(refused == nullptr, "{}: a certificate that is refused: {}", what,
        refused ? refused->message : "");
  check(certify::is_proved(certificate.lower_bound, std::get<double>(verdict)),
        "{}: the certificate claims more than it proves", what);
  bounds_.push_back({what + ", certificate", certificate.lower_bound, certificate.budget_bytes,
                     certificate.chain ? "any-order" : "fixed-order", certificate.moves.has_value(),
                     certificate.moves && certificate.moves->residents});
  if (certificate.budget_bytes != planned.plan->budget_bytes) return;
  const auto certified = certify::certify(graph_, *planned.plan, again);
  const auto* flaw = std::get_if<certify::Refused>(&certified);
  check(flaw == nullptr, "{}: the certificate is refused for the plan: {}", what,
        flaw ? flaw->message : "");
}

void PlanAnswers::compare() {
  for (const Bound& bound : bounds_) {
    for (const Found& found : found_) compare(bound, found);
  }
  if (has_all_sequences(graph_)) compare_with_sequences();
}

void PlanAnswers::compare_bounds_with(const PlanAnswers& of_other_order) {
  for (const Bound& bound : bounds_) {
    for (Found found : of_other_order.found_) {
      found.keeps_order = found.keeps_stages = false;
      compare(bound, found);
    }
  }
}

void PlanAnswers::take_bound(std::string what, double least, Bytes budget, std::string model) {
  bounds_.push_back({std::move(what), least, budget, std::move(model), false, false});
}

void PlanAnswers::compare(const Bound& bound, const Found& found) {
  const bool is_of_model = bound.model == "any-order" ||
                           (bound.model == "fixed-order" && found.keeps_order) ||
                           (bound.model == "stages" && found.keeps_stages);
  const bool is_for = is_of_model && found.plan->peak_bytes <= bound.budget &&
                      (bound.with_moves || !found.moves) &&
                      (bound.with_residents || !found.moves_residents);
  if (!is_for) return;
  check(is_at_most(bound.least, found.plan->cost),
        "no plan costs less than {} ({}), but one costs {} ({})", bound.least, bound.what,
        found.plan->cost, found.what);
}

void PlanAnswers::compare_with_sequences() {
  const CheapestSequence cheapest(graph_);
  for (const Bound& bound : bounds_) {
    const auto which = sequences_of(bound.model);
    if (bound.with_moves || !which) continue;
    const double least = cheapest.cost(bound.budget, *which);
    check(is_at_most(bound.least, least),
          "no plan costs less than {} ({}), but a sequence costs {}", bound.least, bound.what,
          least);
  }
  for (const Found& found : found_) {
    if (found.moves) continue;
    const double least = cheapest.cost(found.plan->peak_bytes, Sequences::any_order);
    check(is_at_most(least, found.plan->cost), "{}: costs {}, less than every sequence", found.what,
          found.plan->cost);
  }
  check(cheapest.cost(floor_ - 1, Sequences::any_order) == kNever, "a floor that is too high");
}

}  // namespace lowtide::testing
