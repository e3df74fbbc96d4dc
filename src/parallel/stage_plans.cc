#include "parallel/stage_plans.h"

#include <algorithm>
#include <limits>

namespace lowtide::parallel {
namespace {

/// The working bytes of plans, each once; of many the largest of as many parts as are wanted.
std::vector<Bytes> working_limits(const std::vector<Unit>& units) {
  std::vector<Bytes> limits;
  for (const Unit& unit : units) {
    for (const UnitPlan& plan : unit.plans) limits.push_back(plan.working_bytes);
  }
  std::ranges::sort(limits);
  limits.erase(std::ranges::unique(limits).begin(), limits.end());
  if (limits.size() <= StagePlans::kMostLimits) return limits;
  std::vector<Bytes> fewer;
  for (std::size_t i = 1; i <= StagePlans::kMostLimits; ++i) {
    fewer.push_back(limits[limits.size() * i / StagePlans::kMostLimits - 1]);
  }
  return fewer;
}

}  // namespace

StagePlans::StagePlans(std::vector<Unit> units, std::vector<int> sequence)
    : units_(std::move(units)),
      sequence_(std::move(sequence)),
      limits_(working_limits(units_)),
      before_(sequence_.size() + 1),
      of_range_(sequence_.size() * sequence_.size()) {
  for (int i = 0; i < num_units(); ++i) {
    const std::vector<UnitPlan>& plans = unit(i).plans;
    Before next = before_[static_cast<std::size_t>(i)];
    next.state += unit(i).state;
    next.forward += plans.front().forward_seconds;
    next.least_backward +=
        std::ranges::min_element(plans, {}, &UnitPlan::backward_seconds)->backward_seconds;
    before_[static_cast<std::size_t>(i) + 1] = next;
  }
}

StateBytes StagePlans::state(int first, int last) const {
  StateBytes state = before_[static_cast<std::size_t>(last) + 1].state;
  state -= before_[static_cast<std::size_t>(first)].state;
  if (has_both_ends(first, last)) state -= unit(last).tied;
  return state;
}

StateBytes StagePlans::largest_state(int first, int last) const {
  StateBytes largest;
  for (int i = first; i <= last; ++i) {
    largest.parameters = std::max(largest.parameters, unit(i).state.parameters);
    largest.gradients = std::max(largest.gradients, unit(i).state.gradients);
    largest.optimizer = std::max(largest.optimizer, unit(i).state.optimizer);
  }
  return largest;
}

double StagePlans::forward_seconds(int first, int last) const {
  return before_[static_cast<std::size_t>(last) + 1].forward -
         before_[static_cast<std::size_t>(first)].forward;
}

double StagePlans::least_backward_seconds(int first, int last) const {
  return before_[static_cast<std::size_t>(last) + 1].least_backward -
         before_[static_cast<std::size_t>(first)].least_backward;
}

StagePlans::Family& StagePlans::family(int first, int last) {
  Family*& known = of_range_[static_cast<std::size_t>(first) * sequence_.size() +
                             static_cast<std::size_t>(last)];
  if (known != nullptr) return *known;
  Runs runs;
  for (int i = first; i <= last; ++i) {
    const int kind = sequence_[static_cast<std::size_t>(i)];
    if (!runs.empty() && runs.back().first == kind) {
      ++runs.back().second;
    } else {
      runs.emplace_back(kind, 1);
    }
  }
  known = &family_of(runs);
  return *known;
}

StagePlans::Family& StagePlans::family_of(const Runs& runs) {
  Family& family = families_[runs];  // stays in place when others are added
  if (!family.sums.empty()) return family;
  family.runs = runs;
  family.sums.resize(limits_.size());
  Runs before = runs;
  if (--before.back().second == 0) before.pop_back();
  if (!before.empty()) family.before = &family_of(before);
  return family;
}

const StagePlans::Sums& StagePlans::sums(Family& family, std::size_t limit) {
  std::unique_ptr<Sums>& known = family.sums[limit];
  if (known != nullptr) return *known;
  const Sums nothing{{.held = 0, .seconds = 0, .plan = 0, .before = 0}};
  const Sums& before = family.before == nullptr ? nothing : sums(*family.before, limit);
  known = std::make_unique<Sums>(extended(before, family.runs.back().first, limits_[limit]));
  return *known;
}

StagePlans::Sums StagePlans::extended(const Sums& before, int kind, Bytes limit) const {
  const std::vector<UnitPlan>& plans = units_[static_cast<std::size_t>(kind)].plans;
  Sums all;
  for (std::size_t p = 0; p < plans.size(); ++p) {
    if (plans[p].working_bytes > limit) continue;
    for (std::size_t i = 0; i < before.size(); ++i) {
      all.push_back({before[i].held + plans[p].held_bytes,
                     before[i].seconds + plans[p].backward_seconds, static_cast<int>(p),
                     static_cast<int>(i)});
    }
  }
  if (all.size() > 4 * kMostSums) all = best_of_steps(all);
  Sums best = best_sums(std::move(all));
  return best.size() > kMostSums ? best_of_steps(best) : best;
}

StagePlans::Sums StagePlans::best_sums(Sums all) {
  std::ranges::sort(all, {}, [](const Sum& sum) { return std::pair(sum.held, sum.seconds); });
  Sums best;
  for (const Sum& sum : all) {
    if (best.empty() || sum.seconds < best.back().seconds) best.push_back(sum);
  }
  return best;
}

/// The sum of the fewest bytes stays in any case: it says what fits at all.
StagePlans::Sums StagePlans::best_of_steps(const Sums& all) {
  const auto [least, most] = std::ranges::minmax_element(all, {}, &Sum::held);
  const auto width =
      static_cast<double>(most->held - least->held + 1) / static_cast<double>(kMostSums - 1);
  std::vector<const Sum*> steps(kMostSums, nullptr);
  for (const Sum& sum : all) {
    const auto step =
        sum.held == least->held
            ? 0
            : 1 + static_cast<std::size_t>(static_cast<double>(sum.held - least->held) / width);
    const Sum*& known = steps[std::min(step, kMostSums - 1)];
    if (known == nullptr ||
        std::pair(sum.seconds, sum.held) < std::pair(known->seconds, known->held)) {
      known = &sum;
    }
  }
  Sums kept;
  for (const Sum* sum : steps) {
    if (sum != nullptr) kept.push_back(*sum);
  }
  return best_sums(std::move(kept));
}

std::vector<int> StagePlans::traced(Family* family, std::size_t limit, std::size_t index) {
  std::vector<int> plans;
  for (; family != nullptr; family = family->before) {
    const Sum& sum = sums(*family, limit)[index];
    plans.push_back(sum.plan);
    index = static_cast<std::size_t>(sum.before);
  }
  std::ranges::reverse(plans);
  return plans;
}

std::optional<StagePlans::Found> StagePlans::fastest_sum(Family& range, Bytes available,
                                                         std::int64_t in_flight,
                                                         Bytes working_of_others) {
  std::optional<Found> best;
  for (std::size_t limit = 0; limit < limits_.size(); ++limit) {
    const Bytes left = available - std::max(limits_[limit], working_of_others);
    if (left < 0) break;
    const Sums& known = sums(range, limit);
    const auto after = std::ranges::upper_bound(known, left / in_flight, {}, &Sum::held);
    if (after == known.begin()) continue;
    const Sum& sum = *(after - 1);
    if (best && sum.seconds >= best->sum.seconds) continue;
    best = Found{limit, static_cast<std::size_t>(after - 1 - known.begin()), sum};
  }
  return best;
}

std::optional<StagePlan> StagePlans::fastest(int first, int last, Bytes available,
                                             std::int64_t in_flight, Bytes working_of_others) {
  const std::optional<Found> found =
      fastest_sum(family(first, last), available, in_flight, working_of_others);
  if (!found) return std::nullopt;
  return StagePlan{.held_bytes = found->sum.held,
                   .working_bytes = limits_[found->limit],
                   .backward_seconds = found->sum.seconds};
}

std::optional<StagePlan> StagePlans::fastest_with_plans(int first, int last, Bytes available,
                                                        std::int64_t in_flight,
                                                        Bytes working_of_others) {
  Family& range = family(first, last);
  const std::optional<Found> found = fastest_sum(range, available, in_flight, working_of_others);
  if (!found) return std::nullopt;
  StagePlan plan{.held_bytes = found->sum.held, .backward_seconds = found->sum.seconds};
  plan.plans = traced(&range, found->limit, found->index);
  for (std::size_t i = 0; i < plan.plans.size(); ++i) {
    const Unit& own = unit(first + static_cast<int>(i));
    plan.working_bytes = std::max(plan.working_bytes,
                                  own.plans[static_cast<std::size_t>(plan.plans[i])].working_bytes);
  }
  return plan;
}

Bytes StagePlans::least_bytes(int first, int last, std::int64_t in_flight) {
  Family& range = family(first, last);
  Bytes least = std::numeric_limits<Bytes>::max();
  for (std::size_t limit = 0; limit < limits_.size(); ++limit) {
    const Sums& known = sums(range, limit);
    if (known.empty()) continue;
    if (limits_[limit] >= least) break;
    const Bytes held = known.front().held;
    if (held > (least - limits_[limit]) / in_flight) continue;  // also where it would overflow
    least = held * in_flight + limits_[limit];
  }
  return least;
}

}  // namespace lowtide::parallel
