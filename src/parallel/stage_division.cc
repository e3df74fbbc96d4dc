#include "parallel/stage_division.h"

#include <algorithm>
#include <limits>

#include "base/control.h"
#include "base/error.h"

namespace lowtide::parallel {
namespace {

/// The sums and maxima of the stages of a partial division.
struct Totals {
  double sum = 0, slowest_forward = 0, slowest_backward = 0, tail = 0;

  Totals with(const StageSeconds& stage, const Pipeline& pipeline) const {
    const double both = stage.forward + stage.backward;
    const bool apart = step_weights(pipeline).apart;
    return {.sum = sum + both,
            .slowest_forward = std::max(slowest_forward, apart ? stage.forward : both),
            .slowest_backward = std::max(slowest_backward, apart ? stage.backward : 0),
            .tail = std::max(tail, stage.tail)};
  }
  double seconds(const Pipeline& pipeline) const {
    const StepWeights weights = step_weights(pipeline);
    return weights.slowest * (slowest_forward + slowest_backward) + weights.sum * sum + tail;
  }
  bool is_no_better(const Totals& than) const {
    return sum >= than.sum && slowest_forward >= than.slowest_forward &&
           slowest_backward >= than.slowest_backward && tail >= than.tail;
  }
};

/// A division of the first units among the first stages.
struct Partial {
  Totals totals;
  int first = 0;   ///< unit of its last stage
  int before = 0;  ///< index among the partial divisions of the units before that stage
};

class DivisionProgram {
 public:
  explicit DivisionProgram(const DivisionProblem& problem)
      : problem_(problem), best_(static_cast<std::size_t>(problem.pipeline.stages)) {
    for (auto& of_stage : best_) of_stage.resize(static_cast<std::size_t>(problem.units) + 1);
  }

  std::optional<Division> solve() {
    const int stages = problem_.pipeline.stages;
    if (stages > problem_.units) return std::nullopt;
    for (int stage = 0; stage < stages; ++stage) add_stage(stage);
    const std::vector<Partial>& whole = at(stages - 1, problem_.units);
    if (whole.empty()) return std::nullopt;
    const auto best = std::ranges::min_element(whole, {}, [&](const Partial& partial) {
      return partial.totals.seconds(problem_.pipeline);
    });
    return traced(static_cast<int>(best - whole.begin()));
  }

 private:
  /// The partial divisions of units 0 .. end - 1 whose last stage is `stage`.
  std::vector<Partial>& at(int stage, int end) {
    return best_[static_cast<std::size_t>(stage)][static_cast<std::size_t>(end)];
  }

  void add_stage(int stage) {
    const int left = problem_.pipeline.stages - 1 - stage;  // stages after it, with a unit each
    const int first_begin = stage == 0 ? 0 : stage;
    const int first_end = stage == 0 ? 1 : problem_.units - left;
    for (int first = first_begin; first < first_end; ++first) {
      if (Control::stop_requested()) throw StoppedError("stopped while stages were divided.");
      if (stage > 0 && at(stage - 1, first).empty()) continue;
      extend(stage, first, problem_.units - left);
    }
  }

  /// Stages from `first` on, as long as they fit and are not too slow. Ranges that do not fit grow
  /// no smaller by more units, and the last stage has all that are left.
  void extend(int stage, int first, int most_end) {
    const bool is_last = stage == problem_.pipeline.stages - 1;
    for (int end = is_last ? most_end : first + 1; end <= most_end; ++end) {
      const std::optional<StageSeconds> cost = problem_.cost(stage, first, end - 1);
      if (!cost || Totals().with(*cost, problem_.pipeline).seconds(problem_.pipeline) >=
                       problem_.less_than) {
        return;
      }
      if (stage == 0) {
        offer(stage, end, {.totals = Totals().with(*cost, problem_.pipeline)});
        continue;
      }
      const std::vector<Partial>& before = at(stage - 1, first);
      for (std::size_t i = 0; i < before.size(); ++i) {
        offer(stage, end,
              {.totals = before[i].totals.with(*cost, problem_.pipeline),
               .first = first,
               .before = static_cast<int>(i)});
      }
    }
  }

  void offer(int stage, int end, const Partial& partial) {
    if (partial.totals.seconds(problem_.pipeline) >= problem_.less_than) return;
    std::vector<Partial>& known = at(stage, end);
    const auto no_better = [&](const Partial& other) {
      return partial.totals.is_no_better(other.totals);
    };
    if (std::ranges::any_of(known, no_better)) return;
    // Those that it replaces are not referred to yet: later stages come later.
    std::erase_if(known,
                  [&](const Partial& other) { return other.totals.is_no_better(partial.totals); });
    known.push_back(partial);
  }

  Division traced(int index) {
    Division division{.seconds = 0};
    int end = problem_.units;
    for (int stage = problem_.pipeline.stages - 1; stage >= 0; --stage) {
      const Partial& partial = at(stage, end)[static_cast<std::size_t>(index)];
      if (division.first.empty()) division.seconds = partial.totals.seconds(problem_.pipeline);
      division.first.push_back(partial.first);
      end = partial.first;
      index = partial.before;
    }
    std::ranges::reverse(division.first);
    return division;
  }

  const DivisionProblem& problem_;
  std::vector<std::vector<std::vector<Partial>>> best_;  // by stage and end
};

}  // namespace

double step_seconds(const Pipeline& pipeline, const std::vector<StageSeconds>& stages) {
  Totals totals;
  for (const StageSeconds& stage : stages) totals = totals.with(stage, pipeline);
  return totals.seconds(pipeline);
}

std::optional<Division> best_division(const DivisionProblem& problem) {
  return DivisionProgram(problem).solve();
}

SmallestDivision smallest_division(
    int units, int stages,
    const std::function<std::int64_t(int stage, int first, int last)>& bytes) {
  constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
  const auto size = static_cast<std::size_t>(units) + 1;
  std::vector<std::int64_t> least(size, kNever);  // by the number of units so far
  least[0] = 0;
  std::vector<std::vector<int>> choice;  // per stage, by the number of units: its first unit
  for (int stage = 0; stage < stages; ++stage) {
    std::vector<std::int64_t> next(size, kNever);
    std::vector<int> first_of(size);
    for (int first = stage; first < units; ++first) {
      const std::int64_t before = least[static_cast<std::size_t>(first)];
      if (before == kNever) continue;
      for (int end = first + 1; end <= units - (stages - 1 - stage); ++end) {
        auto& known = next[static_cast<std::size_t>(end)];
        if (before >= known) continue;
        const std::int64_t largest = std::max(before, bytes(stage, first, end - 1));
        if (largest >= known) continue;
        known = largest;
        first_of[static_cast<std::size_t>(end)] = first;
      }
    }
    least = std::move(next);
    choice.push_back(std::move(first_of));
  }
  SmallestDivision division{.bytes = least[static_cast<std::size_t>(units)]};
  int end = units;
  for (int stage = stages - 1; stage >= 0; --stage) {
    end = choice[static_cast<std::size_t>(stage)][static_cast<std::size_t>(end)];
    division.first.push_back(end);
  }
  std::ranges::reverse(division.first);
  return division;
}

}  // namespace lowtide::parallel
