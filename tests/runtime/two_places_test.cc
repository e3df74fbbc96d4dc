#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "offload/joint.h"
#include "plan/places.h"
#include "runtime/executor.h"
#include "runtime/random_step.h"
#include "runtime/training_sample.h"
#include "slower/faulty_calls.h"
#include "slower/file_store.h"
#include "slower/host_store.h"
#include "slower/joined_store.h"
#include "support/sweep.h"
#include "support/temp_folder.h"

namespace lowtide::runtime {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// What random steps move to, by random lanes: the second ones are often so slow that a plan waits.
offload::Slower draw_slower(std::mt19937_64& random) {
  const auto lane = [&](double most) {
    return Lane{1e-2 * most * static_cast<double>(random() % 100),
                1e-6 * most * static_cast<double>(random() % 100)};
  };
  const auto lanes = [&](double most) { return Lanes{lane(most), lane(most), random() % 2 == 0}; };
  constexpr Bytes kFirst[] = {0, 1, 4096, 8192, 3 * 4096, 5 * 4096};
  constexpr std::optional<Bytes> kSecond[] = {{}, {}, 4 * 4096, 8 * 4096};
  offload::Slower slower{.lanes = lanes(0.5),
                         .bytes = kFirst[random() % std::size(kFirst)],
                         .residents = random() % 2 == 0,
                         .second = offload::SecondSlower{.lanes = lanes(20)}};
  slower.second->bytes = kSecond[random() % std::size(kSecond)];
  return slower;
}

/// A plan that moves something, or nothing where there is none.
std::optional<Plan> plan_in_two_places(const Graph& graph, std::mt19937_64& random) {
  const offload::Slower slower = draw_slower(random);
  const Bytes least = offload::floor_of_moves(graph, slower);
  const auto beside = static_cast<double>(keep_all_reference(graph).peak_bytes - least);
  const double share = 0.4 + 0.05 * static_cast<double>(random() % 9);
  Control control = Control::by_work(0.02);
  auto planned = offload::plan_with(graph, least + static_cast<Bytes>(share * beside), slower,
                                    offload::Ways::move, control);
  if (!planned.plan || !planned.plan->slower) return std::nullopt;
  return planned.plan;
}

/// Late host memory, and a file in the folder; of what the plan takes of each.
slower::JoinedStore stores_for(const Plan& plan, const std::filesystem::path& folder,
                               slower::FaultyCalls& calls) {
  const PlaceBytes bytes = bytes_of_places(*plan.slower);
  std::unique_ptr<slower::Store> host, file;
  if (bytes.first > 0) {
    host = std::make_unique<slower::HostStore>(
        bytes.first, slower::LaneSpeed{.out = {1e-4, 1e9}, .in = {1e-4, 1e9}});
  }
  if (bytes.second > 0) {
    file = std::make_unique<slower::FileStore>(
        folder, bytes.second, slower::FileOptions{.threads_per_lane = 2, .calls = &calls});
  }
  return {std::move(host), std::move(file)};
}

/// Of the second place, in one of its first calls.
void draw_fault_of_file(slower::FaultyCalls& calls, std::mt19937_64& random) {
  using slower::Fault;
  constexpr Fault kReads[] = {Fault::nothing, Fault::flipped, Fault::elsewhere};
  constexpr Fault kWrites[] = {Fault::error, Fault::lie};
  const int after = static_cast<int>(random() % 4);
  if (random() % 2 == 0) {
    calls.fail_reads(kReads[random() % std::size(kReads)], 1, EIO, after);
  } else {
    calls.fail_writes(kWrites[random() % std::size(kWrites)], 1, ENOSPC, after);
  }
}

/// Random models, budgets of memory and of both places, lanes, and faults of the disk.
TEST(StepsInTwoPlaces, GiveTheBitsOrOneErrorThatNamesTheFile) {
  const device::ComputeDevice& cpu = device::cpu_device();
  const testing::TempFolder folder;
  int right = 0, failed = 0, in_both = 0;
  for (int seed = 0; seed < lowtide::testing::sweep(600, 12); ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const Graph graph = profiled(random_step(seed, random() % 2 == 0 ? 12 : 36).graph, cpu);
    const auto plan = plan_in_two_places(graph, random);
    if (!plan) continue;
    slower::FaultyCalls calls;
    slower::JoinedStore store = stores_for(*plan, folder.path(), calls);
    const PlaceBytes bytes = bytes_of_places(*plan->slower);
    in_both += bytes.first > 0 && bytes.second > 0;
    calls.delay(static_cast<int>(random() % 200));
    if (random() % 2 == 0) calls.be_choppy();
    if (seed % 2 == 0) draw_fault_of_file(calls, random);
    const State expected = interpret_steps(graph, 3, cpu);
    try {
      expect_equal(run_steps(graph, *plan, 3, {.slower = &store}), expected);
      ++right;
    } catch (const Error& error) {
      EXPECT_EQ(seed % 2, 0);
      EXPECT_THAT(error.what(), HasSubstr(folder.path().string()));
      ++failed;
      calls.fail_reads(slower::Fault::none, 0);
      calls.fail_writes(slower::Fault::none, 0);
      expect_equal(run_steps(graph, *plan, 3, {.slower = &store}), expected);  // nothing is left
    }
  }
  EXPECT_GT(right, 0);
  EXPECT_GT(failed, 0);
  EXPECT_GT(in_both, 0);
}

/// The first random step that moves something to both places.
struct StepInTwoPlaces {
  Graph graph;
  Plan plan;
};
StepInTwoPlaces step_in_two_places() {
  for (int seed = 0;; ++seed) {
    std::mt19937_64 random(seed);
    Graph graph = profiled(random_step(seed, 36).graph, device::cpu_device());
    auto plan = plan_in_two_places(graph, random);
    if (!plan) continue;
    const PlaceBytes bytes = bytes_of_places(*plan->slower);
    if (bytes.first > 0 && bytes.second > 0) return {std::move(graph), std::move(*plan)};
  }
}

TEST(StepsInTwoPlaces, AreRefusedWithoutTheRoomOfEach) {
  const StepInTwoPlaces step = step_in_two_places();
  const PlaceBytes bytes = bytes_of_places(*step.plan.slower);
  slower::HostStore one(step.plan.slower->bytes);
  slower::JoinedStore otherwise(std::make_unique<slower::HostStore>(bytes.first + 1),
                                std::make_unique<slower::HostStore>(bytes.second));
  for (slower::Store* store : std::initializer_list<slower::Store*>{&one, &otherwise}) {
    EXPECT_THAT([&] { Executor(step.graph, step.plan, {.slower = store}); },
                ThrowsMessage<InputError>(HasSubstr("of a first place of slower memory")));
  }
}

/// A plan that claims less than its copies take of a place is not executed.
TEST(StepsInTwoPlaces, AreRefusedBeyondTheBudgetOfAPlace) {
  StepInTwoPlaces step = step_in_two_places();
  slower::JoinedStore store(std::make_unique<slower::HostStore>(step.plan.slower->second->begin),
                            std::make_unique<slower::HostStore>(step.plan.slower->bytes));
  step.plan.slower->second->first_budget = step.plan.slower->second->begin - 1;
  EXPECT_THAT([&] { Executor(step.graph, step.plan, {.slower = &store}); },
              ThrowsMessage<InputError>(HasSubstr("its budget is")));
}

}  // namespace
}  // namespace lowtide::runtime
