#include "parallel/stage_division.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <map>
#include <random>

#include "support/sweep.h"

namespace lowtide::testing {
namespace {

using parallel::Division;
using parallel::Pipeline;
using parallel::Schedule;
using parallel::StageSeconds;

constexpr double kAny = std::numeric_limits<double>::infinity();

/// Units with random costs on stages with random memories: more units never take less.
class RandomStages {
 public:
  RandomStages(std::uint64_t seed, Schedule schedule) {
    std::mt19937_64 random(seed);
    const auto up_to = [&](int most) { return 1 + static_cast<int>(random() % most); };
    units = up_to(8);
    pipeline = {.schedule = schedule, .stages = up_to(units), .micro_batches = up_to(8)};
    for (int i = 0; i < units; ++i) {
      forward_.push_back(up_to(9));
      backward_.push_back(up_to(9));
      tail_.push_back(up_to(9) * up_to(9));
      bytes_.push_back(up_to(9));
    }
    for (int s = 0; s < pipeline.stages; ++s) memory_.push_back(up_to(40));
  }

  std::optional<StageSeconds> cost(int stage, int first, int last) const {
    if (bytes(stage, first, last) > memory_[stage]) return std::nullopt;
    StageSeconds seconds;
    for (int i = first; i <= last; ++i) {
      seconds.forward += forward_[i];
      seconds.backward += backward_[i];
      seconds.tail += tail_[i];
    }
    return seconds;
  }
  /// Earlier stages hold more of each unit.
  std::int64_t bytes(int stage, int first, int last) const {
    std::int64_t sum = 0;
    for (int i = first; i <= last; ++i) sum += bytes_[i] * (pipeline.stages - stage);
    return sum;
  }

  /// Calls with the first units of every division.
  void each(const std::function<void(const std::vector<int>&)>& visit) const {
    std::vector<int> first{0};
    std::function<void()> extend = [&] {
      if (static_cast<int>(first.size()) == pipeline.stages) return visit(first);
      for (int next = first.back() + 1; next < units; ++next) {
        first.push_back(next);
        extend();
        first.pop_back();
      }
    };
    extend();
  }
  int last_of(const std::vector<int>& first, std::size_t stage) const {
    return (stage + 1 < first.size() ? first[stage + 1] : units) - 1;
  }

  int units = 0;
  Pipeline pipeline;

 private:
  std::vector<double> forward_, backward_, tail_;
  std::vector<std::int64_t> bytes_, memory_;
};

std::optional<double> seconds_of(const RandomStages& stages, const std::vector<int>& first) {
  std::vector<StageSeconds> all;
  for (std::size_t s = 0; s < first.size(); ++s) {
    const auto own = stages.cost(static_cast<int>(s), first[s], stages.last_of(first, s));
    if (!own) return std::nullopt;
    all.push_back(*own);
  }
  return parallel::step_seconds(stages.pipeline, all);
}

double least_by_enumeration(const RandomStages& stages) {
  double least = kAny;
  stages.each([&](const std::vector<int>& first) {
    least = std::min(least, seconds_of(stages, first).value_or(kAny));
  });
  return least;
}

std::optional<Division> divided(const RandomStages& stages, double less_than = kAny) {
  return parallel::best_division(
      {.units = stages.units,
       .pipeline = stages.pipeline,
       .cost = [&](int stage, int first, int last) { return stages.cost(stage, first, last); },
       .less_than = less_than});
}

TEST(StageDivision, IsTheBestOfAll) {
  int feasible = 0;
  for (std::uint64_t seed = 0; seed < sweep(20000U, 2000U); ++seed) {
    SCOPED_TRACE(seed);
    const RandomStages stages(seed, seed % 2 == 0 ? Schedule::gpipe : Schedule::one_f_one_b);
    const double least = least_by_enumeration(stages);
    const std::optional<Division> found = divided(stages);
    ASSERT_EQ(found.has_value(), least < kAny);
    if (!found) continue;
    ++feasible;
    EXPECT_DOUBLE_EQ(found->seconds, least);
    EXPECT_DOUBLE_EQ(seconds_of(stages, found->first).value(), least);
  }
  EXPECT_GT(feasible, 400);
}

TEST(StageDivision, StaysBelowTheLimitOrSaysNothing) {
  for (std::uint64_t seed = 0; seed < sweep(5000U, 500U); ++seed) {
    SCOPED_TRACE(seed);
    const RandomStages stages(seed, Schedule::one_f_one_b);
    const double least = least_by_enumeration(stages);
    if (least == kAny) continue;
    EXPECT_FALSE(divided(stages, least).has_value());
    EXPECT_DOUBLE_EQ(divided(stages, least * 1.000001)->seconds, least);
  }
}

TEST(StageDivision, TheSmallestIsTheSmallestOfAll) {
  for (std::uint64_t seed = 0; seed < sweep(5000U, 500U); ++seed) {
    SCOPED_TRACE(seed);
    const RandomStages stages(seed, Schedule::one_f_one_b);
    const auto largest = [&](const std::vector<int>& first) {
      std::int64_t most = 0;
      for (std::size_t s = 0; s < first.size(); ++s) {
        most = std::max(most,
                        stages.bytes(static_cast<int>(s), first[s], stages.last_of(first, s)));
      }
      return most;
    };
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    stages.each([&](const std::vector<int>& first) { least = std::min(least, largest(first)); });
    const parallel::SmallestDivision found = parallel::smallest_division(
        stages.units, stages.pipeline.stages,
        [&](int stage, int first, int last) { return stages.bytes(stage, first, last); });
    EXPECT_EQ(found.bytes, least);
    EXPECT_EQ(largest(found.first), least);
  }
}

TEST(StageDivision, NeedsAUnitForEachStage) {
  const parallel::DivisionProblem problem{
      .units = 2,
      .pipeline = {.stages = 3},
      .cost = [](int, int, int) { return StageSeconds{1, 1}; },
      .less_than = kAny};
  EXPECT_FALSE(parallel::best_division(problem).has_value());
}

}  // namespace
}  // namespace lowtide::testing
