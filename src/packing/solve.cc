#include "packing/solve.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "packing/ejection_search.h"
#include "packing/fixed.h"
#include "packing/greedy.h"
#include "packing/guides.h"
#include "packing/instance.h"
#include "packing/reinsertion_search.h"
#include "packing/skeleton.h"
#include "packing/valley_search.h"

namespace lowtide::packing {
namespace {

/// Number of searches for the first target; doubles in each later round over the targets.
constexpr std::int64_t kFirstSearches = 16;
constexpr std::int64_t kQuickSearches = 4;
/// The heuristics may use 1/kFirstShare of the work.
constexpr std::int64_t kFirstShare = 8;
/// The shortest attempt of a search may use 1/kAttemptShare of the work.
constexpr std::int64_t kAttemptShare = 32;
/// Searches of a skeleton per target, and the work per item of ejection with the other items.
constexpr std::int64_t kSkeletonSearches = 3;
constexpr std::int64_t kRestPatience = 4000;
/// Before the first local search, skeletons may use 1/kSkeletonShare of a round.
constexpr std::int64_t kSkeletonShare = 4;
/// A turn of the exact searches is 1/kTurns of a round; local search gets three turns in a row, in
/// kSlices slices for its two kinds.
constexpr std::int64_t kTurns = 8;
constexpr std::int64_t kSlices = 4;
/// Ejection visits this many items, per item, before it tries a shorter step; the shortest step is
/// 1/kShortestStep of the target height.
constexpr std::int64_t kPatiencePerBuffer = 1000;
constexpr Bytes kShortestStep = 2000;
/// Most pairs of item and clique, which limits the memory of a search.
constexpr std::int64_t kMostLives = 50'000'000;

std::vector<Bytes> loads_of(const std::vector<Buffer>& buffers, const Instance& instance) {
  std::vector<Bytes> result(buffers.size());
  set_of_buffers(instance, loads(instance), result);
  return result;
}

/// Whether one search for a first packing needs roughly at most the work, and the memory limit.
bool can_search(const Instance& instance, std::int64_t work) {
  const std::int64_t pairs = lives(instance);
  const double cost =
      static_cast<double>(pairs) * (static_cast<double>(pairs) / instance.cliques + 1) +
      static_cast<double>(instance.items.size()) * instance.cliques;
  return pairs <= kMostLives && cost <= static_cast<double>(work);
}

/// Lowers a packing by several searches in turn, until it is proven lowest or the work is used up.
class Descent {
 public:
  Descent(const Instance& instance, const PackingGoal& goal, std::int64_t work, SolvedPacking& best,
          const Control& control)
      : instance_(instance),
        goal_(goal),
        best_(best),
        control_(control),
        work_left_(work),
        patience_(kPatiencePerBuffer * static_cast<std::int64_t>(instance.items.size())) {}

  /// Lowers a packing that is within the capacity if a few searches suffice.
  void settle() { aim(best_.lower_bound, kQuickSearches); }

  /// Runs in growing rounds, so that for any work limit each search gets its turn soon.
  void run() {
    for (std::int64_t round = kPackingWork; !is_solved() && !is_over(); round *= 2) {
      run_until_left(std::max<std::int64_t>(0, work_left_ - round));
    }
  }

  /// For instances that are too large for exact searches.
  void run_without_proofs() {
    try_skeletons(work_left_ / kSkeletonShare);
    descend(work_left_);
  }

  bool is_solved() const {
    return best_.proven() || (goal_.capacity && (best_.packing.height <= *goal_.capacity ||
                                                 best_.lower_bound > *goal_.capacity));
  }

 private:
  /// Alternates exact searches with local search, which gets three times as long. The first target
  /// is the capacity or else the bound: often the lowest packing is found at once.
  void run_until_left(std::int64_t end) {
    const std::int64_t turn = std::max<std::int64_t>(1, (work_left_ - end) / kTurns);
    search_stop_ = work_left_ - turn;
    aim(least(), kFirstSearches);
    try_skeletons((work_left_ - end) / kSkeletonShare);
    for (std::int64_t count = kFirstSearches; !is_solved() && !is_over() && work_left_ > end;
         count *= 2) {
      descend(3 * turn);
      search_stop_ = std::max<std::int64_t>(0, work_left_ - turn);
      aim_between(count);
    }
  }

  /// Bisects between the bound and the best packing: exact searches place the large items, local
  /// search the rest.
  void try_skeletons(std::int64_t most_work) {
    if (is_solved() || is_over()) return;
    search_stop_ = work_left_ - most_work;
    std::vector<Skeleton> all = skeletons(instance_);
    std::erase_if(all, [&](const Skeleton& s) { return !can_search(s.instance, work_left_); });
    Bytes failed = best_.lower_bound;
    while (!all.empty() && !is_solved() && may_search()) {
      const Bytes middle = failed + (best_.packing.height - failed) / 2;
      const Bytes target = goal_.capacity.value_or(in_units(middle));
      if (pack_rest_of_any(all, target)) continue;
      failed = std::max(target, best_.lower_bound);
      if (goal_.capacity || best_.packing.height - failed <= shortest_step()) {
        failed = best_.lower_bound;
        next_skeleton_search_ += kSkeletonSearches;
      }
    }
  }

  /// Two kinds of local search in turn, each from the lowest packing so far.
  void descend(std::int64_t most_work) {
    most_work = std::min(most_work, work_left_);
    if (!ReinsertionSearch::can_search(instance_)) return step_down(most_work);
    const std::int64_t slice = std::max(patience_, most_work / kSlices);
    const std::int64_t stop = work_left_ - most_work;
    while (!is_solved() && !is_over() && work_left_ > stop) {
      step_down(std::min(slice, work_left_ - stop));
      reinsert(std::min(slice, work_left_ - stop));
    }
  }

  /// Moves items out of piles that are too high; the items above them sink.
  void reinsert(std::int64_t most_work) {
    if (is_solved() || is_over()) return;
    if (!reinsertion_) {
      reinsertion_.emplace(instance_, of_items(instance_, best_.packing.offsets));
    } else if (reinsertion_->height() > best_.packing.height) {
      reinsertion_->start_from(of_items(instance_, best_.packing.offsets));
    }
    const std::int64_t before = reinsertion_->work();
    reinsertion_->lower(least(), most_work, control_);
    use_up(reinsertion_->work() - before);
    if (reinsertion_->height() < best_.packing.height) {
      keep(reinsertion_->offsets());
      ejection_.reset();
    }
  }

  /// Lowers the target by ejection in steps: long at first, halved after a failure, doubled after a
  /// success.
  void step_down(std::int64_t most_work) {
    if (is_solved() || is_over()) return;
    if (!ejection_) {
      ejection_.emplace(instance_, of_items(instance_, best_.packing.offsets));
      if (step_ == 0) step_ = best_.packing.height - least();
    }
    const std::int64_t before = ejection_->work();
    const std::int64_t stop = before + std::min(most_work, work_left_);
    const Bytes shortest = shortest_step();
    while (!is_solved() && ejection_->work() < stop && !control_.should_stop()) {
      const Bytes target = std::max(least(), in_units(best_.packing.height - step_));
      if (ejection_->pack_within(target, std::min(patience_, stop - ejection_->work()), control_)) {
        keep(ejection_->offsets());
        step_ *= 2;
      } else if (step_ > shortest) {
        step_ = std::max(step_ / 2, shortest);
      } else {
        patience_ *= 2;
      }
    }
    use_up(ejection_->work() - before);
  }

  Bytes least() const { return goal_.capacity.value_or(best_.lower_bound); }
  /// Targets are whole units, since local search also places items against the top.
  Bytes in_units(Bytes target) const { return target / instance_.unit * instance_.unit; }
  Bytes shortest_step() const { return std::max(instance_.unit, least() / kShortestStep); }
  bool may_search() const { return work_left_ > search_stop_ && !control_.should_stop(); }
  bool is_over() const { return work_left_ <= 0 || control_.should_stop(); }

  /// Tries the capacity, if there is one. Else tries the bound, then bisects between the highest
  /// failed target and the best packing.
  void aim_between(std::int64_t count) {
    const std::int64_t first = next_search_;
    aim(least(), count);
    if (goal_.capacity) return;
    const Bytes unit = instance_.unit;
    Bytes failed = best_.lower_bound;
    while (!is_solved() && may_search() && failed + unit < best_.packing.height) {
      const Bytes steps = (best_.packing.height - failed) / unit;
      const Bytes target = failed + steps / 2 * unit;
      next_search_ = first;
      if (!aim(target, count)) failed = target;
    }
  }

  /// Runs the next `count` searches; returns whether one packs within the target.
  bool aim(Bytes target, std::int64_t count) {
    if (best_.packing.height <= target) return true;
    for (; count > 0 && may_search(); --count) {
      const Attempt attempt = search(instance_, target, next_search_++);
      if (attempt.verdict == Verdict::packed) return keep(attempt.offsets);
      if (attempt.verdict == Verdict::impossible) return false;
    }
    return false;
  }

  /// The n-th search. A target that a skeleton cannot reach is impossible for the whole, too.
  Attempt search(const Instance& instance, Bytes target, std::int64_t n) {
    const auto nodes = 8 * static_cast<std::int64_t>(instance.items.size()) + 2000;
    const std::int64_t most_work =
        std::min(work_left_ - search_stop_, goal_.work / kAttemptShare * luby(n));
    Attempt attempt = search_valleys(instance, target, nth_guide(instance, n), nodes * luby(n),
                                     most_work, control_);
    use_up(attempt.work);
    if (attempt.verdict == Verdict::impossible) {
      best_.lower_bound = in_units(target) + instance_.unit;
    }
    return attempt;
  }

  /// Whether a search of a skeleton, then local search for the rest, packs within the target.
  bool pack_rest_of_any(const std::vector<Skeleton>& all, Bytes target) {
    const std::int64_t first = next_skeleton_search_;
    for (const Skeleton& skeleton : all) {
      for (std::int64_t n = first; n < first + kSkeletonSearches && may_search(); ++n) {
        const Attempt attempt = search(skeleton.instance, target, n);
        if (attempt.verdict == Verdict::impossible) return false;
        if (attempt.verdict == Verdict::packed && pack_rest(skeleton, attempt, target)) return true;
      }
    }
    return false;
  }

  bool pack_rest(const Skeleton& skeleton, const Attempt& packed, Bytes target) {
    EjectionSearch local(instance_, offsets_of_whole(skeleton, packed.offsets, instance_));
    const std::int64_t patience = kRestPatience * static_cast<std::int64_t>(instance_.items.size());
    const bool fits = local.pack_within(target, std::min(patience, work_left_), control_);
    use_up(local.work());
    return fits && keep(local.offsets());
  }

  void use_up(std::int64_t work) {
    work_left_ -= work;
    control_.count(kPackingNanoseconds * static_cast<double>(work));
  }

  bool keep(const std::vector<Bytes>& offsets) {
    set_of_buffers(instance_, offsets, best_.packing.offsets);
    best_.packing.height = 0;
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      best_.packing.height = std::max(best_.packing.height, offsets[i] + instance_.items[i].bytes);
    }
    return true;
  }

  const Instance& instance_;
  const PackingGoal& goal_;
  SolvedPacking& best_;
  const Control& control_;
  std::int64_t work_left_;
  std::int64_t search_stop_ = 0;  ///< searches stop when this work is left
  std::int64_t next_search_ = 0;
  std::int64_t next_skeleton_search_ = 0;
  std::optional<EjectionSearch> ejection_;
  std::optional<ReinsertionSearch> reinsertion_;
  std::int64_t patience_;  ///< work of ejection before it tries another step
  Bytes step_ = 0;
};

}  // namespace

SolvedPacking solve_packing(const std::vector<Buffer>& given, const PackingGoal& goal,
                            const Control& control) {
  require_consistent(given, goal.alignment);
  const std::vector<Buffer> buffers = rounded(given, goal.alignment);
  const Instance instance = instance_of(buffers);
  SolvedPacking best{{std::vector<Bytes>(buffers.size()), 0}, lower_bound(instance)};
  if (instance.items.empty()) return best;
  const std::int64_t first = goal.work / kFirstShare;
  best.packing = greedy_packing(buffers, loads_of(buffers, instance), best.lower_bound, first);

  Descent descent(instance, goal, goal.work - first, best, control);
  const bool searches = can_search(instance, goal.work - first);
  if (descent.is_solved()) {
    if (searches) descent.settle();
  } else if (searches) {
    descent.run();
  } else {
    descent.run_without_proofs();
  }
  return best;
}

Bytes packing_lower_bound(const std::vector<Buffer>& buffers, Bytes alignment) {
  return lower_bound(instance_of(rounded(buffers, alignment)));
}

Packing pack(const std::vector<Buffer>& buffers, Bytes alignment, std::int64_t work) {
  return solve_packing(buffers, {alignment, std::nullopt, work}, Control()).packing;
}

}  // namespace lowtide::packing
