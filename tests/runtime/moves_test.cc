#include <bit>
#include <cstdint>
#include <optional>
#include <random>

#include "base/error.h"
#include "offload/joint.h"
#include "runtime/executor.h"
#include "runtime/random_step.h"
#include "runtime/training_sample.h"
#include "slower/aligned_memory.h"
#include "slower/faulty_calls.h"
#include "slower/file_store.h"
#include "slower/host_store.h"
#include "support/sweep.h"
#include "support/temp_folder.h"

namespace lowtide::runtime {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// A plan that moves values, or nothing where none is within the budget.
std::optional<Plan> moving_plan(const Graph& graph, double share, const Lanes& lanes,
                                bool with_residents = false) {
  const offload::Slower slower{.lanes = lanes, .residents = with_residents};
  const Bytes least = with_residents ? offload::floor_of_moves(graph, slower)
                                     : graph.resident_bytes();
  const auto beside = static_cast<double>(keep_all_reference(graph).peak_bytes - least);
  Control control = Control::by_work(with_residents ? 0.03 : 0.3);
  const Bytes budget = least + static_cast<Bytes>(share * beside);
  auto planned = offload::plan_with(graph, budget, slower, offload::Ways::both, control);
  if (!planned.plan || !planned.plan->slower) return std::nullopt;
  return planned.plan;
}

struct Moves : ::testing::Test {
  const device::ComputeDevice& cpu = device::cpu_device();
};

TEST_F(Moves, RandomStepsGiveTheBitsOfInterpretation) {
  const testing::TempFolder folder;
  int moved = 0;
  for (int seed = 0; seed < lowtide::testing::sweep(60, 6); ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = profiled(random_step(seed).graph, cpu);
    const auto plan = moving_plan(graph, seed % 2 == 0 ? 0.8 : 0.6, {});
    if (!plan) continue;
    ++moved;
    const State expected = interpret_steps(graph, 3, cpu);
    slower::HostStore late(plan->slower->bytes, {.out = {1e-4, 1e8}, .in = {1e-4, 1e8}});
    slower::FileStore file(folder.path(), plan->slower->bytes);
    for (slower::Store* store : std::initializer_list<slower::Store*>{&late, &file}) {
      expect_equal(run_steps(graph, *plan, 3, {.slower = store}), expected);
      EXPECT_GT(store->counters().bytes_out, 0);
    }
  }
  EXPECT_GT(moved, 1);
}

TEST_F(Moves, RandomStepsWithResidentsAwayGiveTheBitsOfInterpretation) {
  const testing::TempFolder folder;
  int moved = 0;
  for (int seed = 0; seed < lowtide::testing::sweep(60, 6); ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = profiled(random_step(seed).graph, cpu);
    const Lanes lanes{.out = {0.1 * (seed % 5), 1e-4}, .in = {1, 1e-3}, .shared = seed % 2 == 0};
    const auto plan = moving_plan(graph, 0.1 * (1 + seed % 4), lanes, /*with_residents=*/true);
    if (!plan) continue;
    moved += static_cast<int>(plan->slower->residents.size());
    const State expected = interpret_steps(graph, 3, cpu);
    slower::HostStore late(plan->slower->bytes, {.out = {1e-4, 1e8}, .in = {1e-4, 1e8}});
    slower::FileStore file(folder.path(), plan->slower->bytes);
    for (slower::Store* store : std::initializer_list<slower::Store*>{&late, &file}) {
      expect_equal(run_steps(graph, *plan, 3, {.slower = store}), expected);
    }
  }
  EXPECT_GT(moved, 1);
}

/// Fails the copies back that it is told to, and counts those from and to addresses between pages.
class WatchedStore final : public slower::Store {
 public:
  explicit WatchedStore(Bytes bytes) : memory_(bytes) {}

  int failures = 0;       ///< to come
  int between_pages = 0;  ///< so far

  Bytes bytes() const override { return memory_.bytes(); }
  Bytes buffer_bytes() const override { return 0; }
  slower::Ticket write(Bytes offset, std::span<const std::byte> data,
                       std::string_view name) override {
    count(data.data());
    return memory_.write(offset, data, name);
  }
  slower::Ticket read(Bytes offset, std::span<std::byte> into, std::string_view name) override {
    last_read_ = memory_.read(offset, into, name);
    return last_read_;
  }
  void wait(slower::Ticket ticket) override {
    memory_.wait(ticket);
    if (failures == 0 || ticket.number != last_read_.number) return;
    --failures;
    throw Error("the disk lost it");
  }
  bool done(slower::Ticket ticket) const override { return memory_.done(ticket); }
  slower::Counters counters() const override { return memory_.counters(); }

 private:
  void count(const std::byte* data) {
    if (std::bit_cast<std::uintptr_t>(data) % slower::kPage != 0) ++between_pages;
  }

  slower::HostStore memory_;
  slower::Ticket last_read_;
};

/// The first random step of which a plan moves values.
struct MovingStep {
  Graph graph;
  Plan plan;
};
MovingStep moving_step(std::int64_t side = 12) {
  for (int seed = 0;; ++seed) {
    Graph graph = profiled(random_step(seed, side).graph, device::cpu_device());
    if (auto plan = moving_plan(graph, 0.7, {})) return {std::move(graph), std::move(*plan)};
  }
}

TEST_F(Moves, AFailedCopyIsAnErrorAndTheExecutorIsUsableAfterwards) {
  const MovingStep step = moving_step();
  WatchedStore store(step.plan.slower->bytes);
  Executor executor(step.graph, step.plan, {.slower = &store});
  store.failures = 1;
  executor.initialize(5);
  EXPECT_THAT([&] { executor.step(); }, ThrowsMessage<Error>(HasSubstr("the disk lost it")));
  const auto loss_of_first_step = [&](Executor& one) {
    seed_generator(cpu, 5);
    one.initialize(5);
    one.step();
    return copied(one.output(step.graph.outputs().front()));
  };
  const Plan kept = keep_all_plan(step.graph);
  Executor reference(step.graph, kept);
  EXPECT_TRUE(at::equal(loss_of_first_step(executor), loss_of_first_step(reference)));
}

/// Lanes that often pay beside ops of some microseconds.
Lanes quick_lanes(std::mt19937_64& random) {
  const auto lane = [&] {
    const double latency = 1e-3 * static_cast<double>(random() % 500);
    return Lane{latency, 1e-6 * static_cast<double>(random() % 99)};
  };
  return {lane(), lane(), random() % 2 == 0};
}

/// Sets a random fault of some random call of the next steps.
void draw_fault(slower::FaultyCalls& calls, std::mt19937_64& random) {
  using slower::Fault;
  constexpr Fault kOfReads[] = {Fault::none,    Fault::error, Fault::nothing,
                                Fault::flipped, Fault::lie,   Fault::elsewhere};
  constexpr Fault kOfWrites[] = {Fault::none, Fault::error, Fault::nothing, Fault::lie};
  constexpr int kErrors[] = {EIO, ENOSPC};
  const int after = static_cast<int>(random() % 16);
  const int times = static_cast<int>(1 + random() % 3);
  if (random() % 2 == 0) {
    calls.fail_reads(kOfReads[random() % std::size(kOfReads)], times, EIO, after);
  } else {
    calls.fail_writes(kOfWrites[random() % std::size(kOfWrites)], times,
                      kErrors[random() % std::size(kErrors)], after);
  }
}

/// Random models, budgets and lanes, on a disk that is late, cuts calls short and fails at random.
TEST_F(Moves, OfRandomStepsOnAFaultyDiskGiveTheBitsOrOneError) {
  const testing::TempFolder folder;
  int right = 0, failed = 0;
  for (int seed = 0; seed < lowtide::testing::sweep(1000, 24); ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const std::int64_t side = random() % 2 == 0 ? 12 : 36;
    const Graph graph = profiled(random_step(seed, side).graph, cpu);
    const double share = 0.5 + 0.05 * static_cast<double>(random() % 8);
    const auto plan = moving_plan(graph, share, quick_lanes(random));
    if (!plan) continue;
    slower::FaultyCalls calls;
    calls.delay(static_cast<int>(random() % 200));
    if (random() % 2 == 0) calls.be_choppy();
    slower::FileStore file(folder.path(), plan->slower->bytes,
                           {.threads_per_lane = 2, .calls = &calls});
    draw_fault(calls, random);
    const State expected = interpret_steps(graph, 3, cpu);
    try {
      expect_equal(run_steps(graph, *plan, 3, {.slower = &file}), expected);
      ++right;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(folder.path().string()));
      ++failed;
      calls.fail_reads(slower::Fault::none, 0);
      calls.fail_writes(slower::Fault::none, 0);
      expect_equal(run_steps(graph, *plan, 3, {.slower = &file}), expected);  // nothing is left
    }
  }
  EXPECT_GT(right, 0);
  EXPECT_GT(failed, 0);
}

TEST_F(Moves, AreRefusedWithoutRoomForThem) {
  const MovingStep step = moving_step();
  EXPECT_THAT([&] { Executor(step.graph, step.plan); },
              ThrowsMessage<InputError>(HasSubstr("and the executor has 0")));
  slower::HostStore small(step.plan.slower->bytes - 1);
  EXPECT_THAT([&] { Executor(step.graph, step.plan, {.slower = &small}); },
              ThrowsMessage<InputError>(HasSubstr("give it so many")));
  EXPECT_THAT(
      [&] { Executor(step.graph, step.plan, {.memory = ExecutorOptions::Memory::pool}); },
      ThrowsMessage<InputError>(HasSubstr("the memory pool")));
}

TEST_F(Moves, LargeValuesMoveFromAndToWholePages) {
  const MovingStep step = moving_step(144);  // 20 pages and a quarter
  WatchedStore store(step.plan.slower->bytes);
  Executor executor(step.graph, step.plan, {.slower = &store});
  executor.initialize(5);
  EXPECT_GT(executor.step().moved.bytes_in, 0);
  EXPECT_EQ(store.between_pages, 0);
}

TEST_F(Moves, AreMeasured) {
  const MovingStep step = moving_step();
  slower::HostStore store(step.plan.slower->bytes);
  Executor executor(step.graph, step.plan, {.slower = &store});
  executor.initialize(5);
  executor.step();
  const StepReport report = executor.step();
  Bytes out = 0, in = 0;
  for (const Action& action : step.plan.actions) {
    const Bytes bytes = action.verb == Verb::run ? 0 : step.graph.tensor(action.index).bytes;
    if (action.verb == Verb::offload) out += bytes;
    if (action.verb == Verb::prefetch) in += bytes;
  }
  EXPECT_EQ(report.moved.bytes_out, out);
  EXPECT_EQ(report.moved.bytes_in, in);
  EXPECT_LE(report.measured_peak_bytes, executor.block_bytes());
  EXPECT_EQ(report.outside_bytes, 0);
}

}  // namespace
}  // namespace lowtide::runtime
