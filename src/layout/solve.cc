#include "layout/solve.h"

#include <algorithm>
#include <utility>

#include "layout/ejection_search.h"
#include "layout/fixed.h"
#include "layout/greedy.h"
#include "layout/guides.h"
#include "layout/instance.h"
#include "layout/valley_search.h"

namespace lowtide {
namespace {

/// Searches for the first target; twice as many for each later round over the targets.
constexpr std::int64_t kFirstSearches = 16;
constexpr std::int64_t kQuickSearches = 4;
/// The heuristics, and the first searches, may spend this part of the work.
constexpr std::int64_t kFirstShare = 8;
/// The local search looks at so many items, per item, before it tries a shorter step; and the
/// shortest step, of the height aimed at.
constexpr std::int64_t kPatience = 8000;
constexpr Bytes kShortestStep = 2000;
/// Of items with cliques, for the memory that a search takes.
constexpr std::int64_t kMostLives = 50'000'000;

std::vector<Buffer> rounded(std::vector<Buffer> buffers, Bytes alignment) {
  for (Buffer& buffer : buffers) buffer.bytes = align_up(buffer.bytes, alignment);
  return buffers;
}

std::vector<Bytes> loads_of(const std::vector<Buffer>& buffers, const Instance& instance) {
  std::vector<Bytes> result(buffers.size());
  const std::vector<Bytes> of_items = loads(instance);
  for (std::size_t i = 0; i < of_items.size(); ++i) result[instance.buffers[i]] = of_items[i];
  return result;
}

/// Lowers a packing by searches until it is known to be the lowest, or the work is used up.
class Descent {
 public:
  Descent(const Instance& instance, const PackingGoal& goal, std::int64_t work,
          SolvedPacking& best, const Control& control)
      : instance_(instance), goal_(goal), best_(best), control_(control), work_left_(work) {}

  /// A few searches for the capacity, or else the bound: they find the lowest packing often. What is
  /// within the capacity already is lowered if that is quick.
  void begin() {
    reserve_ = work_left_ - work_left_ / kFirstShare;
    const bool fits = goal_.capacity && best_.packing.height <= *goal_.capacity;
    if (fits) {
      aim(best_.lower_bound, 0, kQuickSearches);
    } else {
      aim(goal_.capacity.value_or(best_.lower_bound), 0, kFirstSearches);
    }
    reserve_ = 0;
  }

  /// Steps down by local search, with this much of the work: far at first, shorter where that fails,
  /// and longer at each step once all of them do.
  void step_down(std::int64_t work) {
    const Bytes least = goal_.capacity.value_or(best_.lower_bound);
    EjectionSearch search(instance_, item_offsets());
    const auto spent = [&] { return search.work(); };
    std::int64_t patience = kPatience * static_cast<std::int64_t>(instance_.items.size());
    const Bytes shortest = std::max(instance_.unit, least / kShortestStep);
    Bytes step = best_.packing.height - least;
    work = std::min(work, work_left_);
    while (!is_solved() && spent() < work && !control_.should_stop()) {
      const Bytes target = std::max(least, best_.packing.height - step);
      if (search.pack_within(target, std::min(patience, work - spent()), control_)) {
        keep(search.offsets());
        step *= 2;
      } else if (step > shortest) {
        step = std::max(step / 2, shortest);
      } else {
        patience *= 2;
      }
    }
    work_left_ -= spent();
  }

  void run() {
    std::int64_t count = kFirstSearches;
    for (std::int64_t first = count; !is_over(); first += count, count *= 2) {
      if (goal_.capacity) {
        aim(*goal_.capacity, first, count);
      } else {
        aim_between(first, count);
      }
    }
  }

  bool is_solved() const {
    return best_.proven() || (goal_.capacity && (best_.packing.height <= *goal_.capacity ||
                                                 best_.lower_bound > *goal_.capacity));
  }

 private:
  bool is_over() const { return is_solved() || is_exhausted(); }
  bool is_exhausted() const { return work_left_ <= reserve_ || control_.should_stop(); }

  /// The bound itself, then halves what lies between the highest that failed and the best.
  void aim_between(std::int64_t first, std::int64_t count) {
    aim(best_.lower_bound, first, count);
    const Bytes unit = instance_.unit;
    Bytes failed = best_.lower_bound;
    while (!is_over() && failed + unit < best_.packing.height) {
      const Bytes steps = (best_.packing.height - failed) / unit;
      const Bytes target = failed + steps / 2 * unit;
      if (!aim(target, first, count)) failed = target;
    }
  }

  /// Whether some of the searches packs within the target.
  bool aim(Bytes target, std::int64_t first, std::int64_t count) {
    const auto nodes = 2 * static_cast<std::int64_t>(instance_.items.size()) + 500;
    if (best_.packing.height <= target) return true;
    for (std::int64_t n = first; n < first + count && !is_exhausted(); ++n) {
      const Attempt attempt = search_valleys(instance_, target, nth_guide(instance_, n),
                                             nodes * luby(n), work_left_ - reserve_, control_);
      work_left_ -= attempt.work;
      if (attempt.verdict == Verdict::packed) return keep(attempt.offsets);
      if (attempt.verdict == Verdict::impossible) {
        best_.lower_bound = target / instance_.unit * instance_.unit + instance_.unit;
        return false;
      }
    }
    return false;
  }

  std::vector<Bytes> item_offsets() const {
    std::vector<Bytes> offsets;
    for (const std::int32_t buffer : instance_.buffers) {
      offsets.push_back(best_.packing.offsets[buffer]);
    }
    return offsets;
  }

  bool keep(const std::vector<Bytes>& offsets) {
    best_.packing.height = 0;
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      best_.packing.offsets[instance_.buffers[i]] = offsets[i];
      best_.packing.height =
          std::max(best_.packing.height, offsets[i] + instance_.items[i].bytes);
    }
    return true;
  }

  const Instance& instance_;
  const PackingGoal& goal_;
  SolvedPacking& best_;
  const Control& control_;
  std::int64_t work_left_;
  std::int64_t reserve_ = 0;  ///< of the work, for later
};

/// Whether one search down to a first packing is within the work, roughly, and the memory.
bool can_search(const Instance& instance, std::int64_t work) {
  const std::int64_t pairs = lives(instance);
  const double cost =
      static_cast<double>(pairs) * (static_cast<double>(pairs) / instance.cliques + 1) +
      static_cast<double>(instance.items.size()) * instance.cliques;
  return pairs <= kMostLives && cost <= static_cast<double>(work);
}

}  // namespace

SolvedPacking solve_packing(const std::vector<Buffer>& given, const PackingGoal& goal,
                            const Control& control) {
  require_consistent(given, goal.alignment);
  const std::vector<Buffer> buffers = rounded(given, goal.alignment);
  const Instance instance = instance_of(buffers);
  SolvedPacking best{{std::vector<Bytes>(buffers.size()), 0}, lower_bound(instance)};
  if (instance.items.empty()) return best;
  const std::vector<Bytes> loads = loads_of(buffers, instance);
  const std::int64_t first = goal.work / kFirstShare;
  best.packing = greedy_packing(buffers, loads_of(buffers, instance), best.lower_bound, first);

  const std::int64_t left = goal.work - first;
  Descent descent(instance, goal, left, best, control);
  const bool searches = can_search(instance, left);
  if (searches) descent.begin();
  descent.step_down(searches ? goal.work / 2 : left);
  if (searches) descent.run();
  return best;
}

Bytes packing_lower_bound(const std::vector<Buffer>& buffers, Bytes alignment) {
  return lower_bound(instance_of(rounded(buffers, alignment)));
}

Packing pack(const std::vector<Buffer>& buffers, Bytes alignment, std::int64_t work) {
  return solve_packing(buffers, {alignment, std::nullopt, work}, Control()).packing;
}

}  // namespace lowtide
