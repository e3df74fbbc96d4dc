#include "parallel/placement_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "base/error.h"
#include "parallel/solved_placement.h"
#include "parallel/whole_step.h"

namespace lowtide::parallel {
namespace {

/// In which every placement fits.
constexpr Bytes kMuchMemory = Bytes{1} << 50;

using WidthsKey = std::tuple<int, int, int>;

WidthsKey widths_of(const Placement& placement) {
  return {placement.data, placement.tensor, placement.pipeline.stages};
}

/// A placement and a lower bound on its seconds.
struct Candidate {
  Placement placement;
  double optimistic = 0;
};

class PlacementSearch {
 public:
  PlacementSearch(const LayeredModel& model, const Cluster& cluster, const SearchLimits& limits,
                  const Control& control)
      : model_(model),
        cluster_(cluster),
        limits_(limits),
        control_(control),
        plans_(model, cluster) {}

  FoundPlacements find() {
    try {
      rank_candidates();
      solve_candidates();
    } catch (const StoppedError&) {
      if (best_.empty()) throw;
      found_.complete = false;
    }
    if (!best_.empty()) {
      report_best();
      plan_whole_steps();
    } else {
      try_whole_steps();
    }
    if (found_.best.empty()) refuse();
    if (found_.complete) found_.misfits = misfits(limits_.misfits, worst_seconds());
    return std::move(found_);
  }

 private:
  struct Best {
    Placement placement;
    SolvedPlacement solved;
  };

  void rank_candidates() {
    const std::vector<Placement> placements = all_placements(model_, cluster_, limits_.space);
    found_.considered = placements.size();
    found_.least_seconds = std::numeric_limits<double>::infinity();
    for (const Placement& placement : placements) {
      if (Control::stop_requested()) throw StoppedError("stopped before a placement was found.");
      const std::vector<StagePlans*>& plans = plans_.of(placement);
      const double optimistic = optimistic_seconds(placement, plans);
      candidates_.push_back({placement, optimistic});
      found_.least_seconds = std::min(found_.least_seconds, busy_seconds(placement, plans));
    }
    std::ranges::stable_sort(candidates_, {}, &Candidate::optimistic);
    const double samples = static_cast<double>(limits_.space.global_batch);
    found_.arithmetic_seconds =
        samples * model_.flops_per_sample / reached_flops_per_second(cluster_, model_.compute);
    found_.least_state_bytes = model_.state.all() / cluster_.ranks();
  }

  /// The work of a step, spread over all ranks; on the fastest kind of nodes.
  static double busy_seconds(const Placement& placement, const std::vector<StagePlans*>& plans) {
    const Placement one_stage{.pipeline = {.stages = 1, .micro_batches = 1}};
    return optimistic_seconds(one_stage, plans) *
           static_cast<double>(placement.pipeline.micro_batches) / placement.pipeline.stages;
  }

  /// The time below which a placement of these widths changes the answer.
  double worth_less_than(const WidthsKey& widths) const {
    const auto known = best_.find(widths);
    if (known != best_.end()) return known->second.solved.seconds;
    return worst_seconds();
  }

  /// Of the last of the best widths; infinite as long as there are not enough.
  double worst_seconds() const {
    if (best_.size() < limits_.widths) return std::numeric_limits<double>::infinity();
    std::vector<double> seconds;
    for (const auto& [widths, best] : best_) seconds.push_back(best.solved.seconds);
    std::ranges::sort(seconds);
    return seconds[limits_.widths - 1];
  }

  void solve_candidates() {
    std::size_t passed = 0;
    for (const Candidate& candidate : candidates_) {
      ++passed;
      if (candidate.optimistic >= worst_seconds()) break;
      const WidthsKey widths = widths_of(candidate.placement);
      const double limit = std::min(worth_less_than(widths), worst_seconds());
      if (candidate.optimistic >= limit || cannot_fit(candidate.placement)) continue;
      control_.report(fmt::format("placement {} of {}: {}", passed, candidates_.size(),
                                  describe(candidate.placement)));
      ++found_.solved;
      std::optional<SolvedPlacement> solved =
          solve(model_, cluster_, candidate.placement, plans_.of(candidate.placement), limit);
      if (solved) best_.insert_or_assign(widths, Best{candidate.placement, std::move(*solved)});
    }
  }

  /// Whether the state alone is too much: that of an average stage is more than the largest memory.
  bool cannot_fit(const Placement& placement) {
    const StageCosts costs(cluster_, placement, plans_.of(placement));
    const int last = static_cast<int>(model_.sequence.size()) - 1;
    const Bytes all = costs.state({{0, last}}).state.all();
    const auto most = std::ranges::max_element(cluster_.kinds, {}, &NodeKind::memory_bytes);
    return all / placement.pipeline.stages > most->memory_bytes;
  }

  void report_best() {
    std::vector<const Best*> sorted;
    for (const auto& [widths, best] : best_) sorted.push_back(&best);
    std::ranges::stable_sort(sorted, {}, [](const Best* best) { return best->solved.seconds; });
    if (sorted.size() > limits_.widths) sorted.resize(limits_.widths);
    for (const Best* best : sorted) {
      found_.best.push_back(
          report(model_, cluster_, best->placement, plans_.of(best->placement), best->solved));
    }
  }

  void plan_whole_steps() {
    for (PlacementReport& best : found_.best) {
      if (!runs_whole_step(model_, best.placement)) continue;
      std::optional<PlacementReport> exact = whole_step_report(model_, cluster_, best, control_);
      if (exact) best = std::move(*exact);
    }
    std::ranges::stable_sort(found_.best, {}, &PlacementReport::step_seconds);
  }

  /// Where no sum of units fits, the plan of a whole step may: the first that does, by its bound.
  void try_whole_steps() {
    Cluster roomy = cluster_;
    for (NodeKind& kind : roomy.kinds) kind.memory_bytes = kMuchMemory;
    for (const Candidate& candidate : candidates_) {
      const Placement& placement = candidate.placement;
      if (!runs_whole_step(model_, placement)) continue;
      const std::vector<StagePlans*>& plans = plans_.of(placement);
      const std::optional<SolvedPlacement> solved =
          solve(model_, roomy, placement, plans, std::numeric_limits<double>::infinity());
      std::optional<PlacementReport> exact = whole_step_report(
          model_, cluster_, report(model_, roomy, placement, plans, *solved), control_);
      if (!exact) continue;
      found_.best.push_back(std::move(*exact));
      return;
    }
  }

  /// Widths of which no placement fits, the most promising first. Of each the placements with the
  /// smallest micro-batch and without chunks are compared, as they need the least.
  std::vector<Misfit> misfits(std::size_t most, double less_than) {
    std::vector<Misfit> found;
    std::set<WidthsKey> seen;
    for (const Candidate& candidate : candidates_) {
      const WidthsKey widths = widths_of(candidate.placement);
      if (candidate.optimistic >= less_than || found.size() == most) break;
      if (best_.contains(widths) || !seen.insert(widths).second) continue;
      const Misfit misfit = smallest_of(widths);
      if (!fits(misfit)) found.push_back(misfit);
    }
    return found;
  }

  bool fits(const Misfit& misfit) const {
    const auto least = std::ranges::min_element(cluster_.kinds, {}, &NodeKind::memory_bytes);
    return misfit.smallest_memory_bytes <= least->memory_bytes;
  }

  Misfit smallest_of(const WidthsKey& widths) {
    Misfit smallest{.smallest_memory_bytes = std::numeric_limits<Bytes>::max()};
    std::int64_t size = std::numeric_limits<std::int64_t>::max();
    for (const Candidate& candidate : candidates_) {
      if (widths_of(candidate.placement) == widths) {
        size = std::min(size, candidate.placement.micro_batch);
      }
    }
    for (const Candidate& candidate : candidates_) {
      const Placement& placement = candidate.placement;
      if (widths_of(placement) != widths || placement.micro_batch != size) continue;
      const bool chunked = placement.pipeline.chunks > 1;
      if (chunked && limits_.space.schedule != Schedule::interleaved) continue;
      const Bytes bytes = smallest_memory(model_, cluster_, placement, plans_.of(placement));
      if (bytes < smallest.smallest_memory_bytes) smallest = {placement, bytes};
    }
    return smallest;
  }

  [[noreturn]] void refuse() {
    Misfit smallest{.smallest_memory_bytes = std::numeric_limits<Bytes>::max()};
    std::set<WidthsKey> seen;
    for (const Candidate& candidate : candidates_) {
      const WidthsKey widths = widths_of(candidate.placement);
      if (!seen.insert(widths).second) continue;
      const Misfit misfit = smallest_of(widths);
      if (misfit.smallest_memory_bytes < smallest.smallest_memory_bytes) smallest = misfit;
    }
    throw InfeasibleError(fmt::format(
        "none of {} placements fits: the smallest memory of a device that would do is {} ({} "
        "bytes), with {}. Use more nodes or a smaller batch, or allow what you ruled out.",
        found_.considered, format_bytes(smallest.smallest_memory_bytes),
        smallest.smallest_memory_bytes, describe(smallest.placement)));
  }

  const LayeredModel& model_;
  const Cluster& cluster_;
  const SearchLimits& limits_;
  const Control& control_;
  KnownPlans plans_;
  std::vector<Candidate> candidates_;
  std::map<WidthsKey, Best> best_;
  FoundPlacements found_;
};

}  // namespace

FoundPlacements find_placements(const LayeredModel& model, const Cluster& cluster,
                                const SearchLimits& limits, const Control& control) {
  return PlacementSearch(model, cluster, limits, control).find();
}

}  // namespace lowtide::parallel
