#include "parallel/schedule.h"

#include <gtest/gtest.h>

#include <random>

#include "parallel/simulated_pipeline.h"
#include "parallel/stage_division.h"
#include "support/sweep.h"

namespace lowtide::testing {
namespace {

using parallel::Pipeline;
using parallel::Schedule;
using parallel::StageSeconds;

Pipeline random_pipeline(Schedule schedule, std::mt19937_64& random) {
  const int stages = 2 + static_cast<int>(random() % 5);
  if (schedule != Schedule::interleaved) {
    return {.schedule = schedule,
            .stages = stages,
            .micro_batches = 1 + static_cast<std::int64_t>(random() % 14)};
  }
  return {.schedule = schedule,
          .stages = stages,
          .chunks = 2 + static_cast<int>(random() % 3),
          .micro_batches = stages * (2 + static_cast<std::int64_t>(random() % 3))};
}

std::vector<double> random_seconds(int stages, std::mt19937_64& random) {
  std::uniform_real_distribution<double> seconds(0.1, 1.1);
  std::vector<double> all;
  for (int i = 0; i < stages; ++i) all.push_back(seconds(random));
  return all;
}

double formula(const Pipeline& pipeline, const std::vector<double>& forward,
               const std::vector<double>& backward) {
  std::vector<StageSeconds> stages;
  for (std::size_t i = 0; i < forward.size(); ++i) stages.push_back({forward[i], backward[i]});
  return parallel::step_seconds(pipeline, stages);
}

class EachSchedule : public ::testing::TestWithParam<Schedule> {};

INSTANTIATE_TEST_SUITE_P(Schedules, EachSchedule,
                         ::testing::Values(Schedule::gpipe, Schedule::one_f_one_b,
                                           Schedule::interleaved),
                         [](const auto& info) {
                           return info.param == Schedule::one_f_one_b
                                      ? std::string("one_f_one_b")
                                      : std::string(parallel::name(info.param));
                         });

/// (p - 1) / m of the ideal time is the bubble, (p - 1) / (m v) with v chunks.
TEST_P(EachSchedule, EqualStagesTakeWhatTheTextbookSays) {
  std::mt19937_64 random(1);
  for (int i = 0; i < sweep(2000, 200); ++i) {
    const Pipeline pipeline = random_pipeline(GetParam(), random);
    const std::vector<double> forward(pipeline.stages, 1), backward(pipeline.stages, 2);
    const SimulatedPipeline simulated(pipeline, forward, backward);
    ASSERT_TRUE(simulated.complete);
    const double ideal = 3.0 * static_cast<double>(pipeline.micro_batches);
    const double bubble = static_cast<double>(pipeline.stages - 1) /
                          static_cast<double>(pipeline.micro_batches * pipeline.chunks);
    EXPECT_NEAR(simulated.makespan, ideal * (1 + bubble), 1e-9);
    EXPECT_NEAR(formula(pipeline, forward, backward), simulated.makespan, 1e-9);
  }
}

TEST_P(EachSchedule, UnequalStagesTakeNoLongerThanIsSaid) {
  std::mt19937_64 random(2);
  const int pipelines = sweep(3000, 300);
  int longer = 0;
  for (int i = 0; i < pipelines; ++i) {
    const Pipeline pipeline = random_pipeline(GetParam(), random);
    const auto forward = random_seconds(pipeline.stages, random);
    const auto backward = random_seconds(pipeline.stages, random);
    const double said = formula(pipeline, forward, backward);
    const double simulated = SimulatedPipeline(pipeline, forward, backward).makespan;
    longer += simulated > said * (1 + 1e-9);
    EXPECT_LE(simulated, said * 1.1);
    if (GetParam() == Schedule::gpipe) {
      EXPECT_NEAR(simulated, said, 1e-9);
    }
  }
  EXPECT_LE(longer, GetParam() == Schedule::one_f_one_b ? pipelines / 100 : 0);
}

TEST_P(EachSchedule, HoldsAsManyMicroBatchesAsIsSaid) {
  std::mt19937_64 random(3);
  for (int i = 0; i < sweep(2000, 200); ++i) {
    const Pipeline pipeline = random_pipeline(GetParam(), random);
    const SimulatedPipeline simulated(pipeline, std::vector<double>(pipeline.stages, 1),
                                      std::vector<double>(pipeline.stages, 2));
    for (int stage = 0; stage < pipeline.stages; ++stage) {
      EXPECT_EQ(parallel::most_in_flight(pipeline, stage), simulated.most_in_flight[stage]);
    }
    // Of the first and the last unit of the model, which are in one chunk each.
    EXPECT_LE(simulated.most_of_chunk.front().front(),
              parallel::most_of_first_unit(pipeline));
    if (GetParam() == Schedule::interleaved) {
      EXPECT_EQ(simulated.most_of_chunk.back().back(), 1);
    }
  }
}

}  // namespace
}  // namespace lowtide::testing
