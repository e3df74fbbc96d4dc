#include "support/corrupted_plan.h"

namespace lowtide {
namespace {

using testing::free_of;
using testing::run;
using testing::sample;
using testing::VerifyTest;

/// The good plan, with a in slower memory for a while.
struct VerifyMoving : VerifyTest {
  VerifyMoving() {
    plan.actions = {run(0),
                    run(1),
                    run(2),
                    {Verb::offload, 1, {}},
                    {Verb::wait, 1, {}},
                    free_of(1),
                    {Verb::prefetch, 1, {}},
                    {Verb::wait, 1, {}},
                    run(3, {0}),
                    free_of(1),
                    run(4)};
    plan.slower = {
        .lanes = {.out = {1, 0.5}, .in = {2, 0.25}}, .copies = {{1, 4096}}, .bytes = 4096 + 64};
    plan.cost = 4 + (1 + 32) + (2 + 16);
    plan.layout = layout::assign_addresses(graph, plan);
    EXPECT_TRUE(testing::is_valid_plan(graph, plan));
  }
};

TEST_F(VerifyMoving, ReadBeforeItArrived) {
  std::swap(plan.actions[7], plan.actions[8]);
  expect(Rule::copy_under_way, 7, "whose copy has not arrived");
}

TEST_F(VerifyMoving, CopiedTwiceAtATime) {
  plan.actions.insert(plan.actions.begin() + 3, plan.actions[3]);
  plan.layout->placements.emplace(plan.layout->placements.begin() + 3);
  expect(Rule::copy_under_way, 4, "is copied while a copy of it is under way");
}

TEST_F(VerifyMoving, UnderWayAtTheEnd) {
  plan.actions.push_back({Verb::offload, 4, {}});
  plan.layout->placements.emplace_back();
  plan.slower->copies.push_back({4, 0});
  expect(Rule::copy_under_way, kNone, "still under way at the end");
}

TEST_F(VerifyMoving, CopyWithoutAddress) {
  plan.slower->copies.clear();
  expect(Rule::no_address, 3, "has no address in slower memory");
}

TEST_F(VerifyMoving, CopiesOverlap) {
  plan.actions.insert(plan.actions.begin() + 4, {{Verb::offload, 3, {}}, {Verb::wait, 3, {}}});
  plan.layout->placements.insert(plan.layout->placements.begin() + 4, 2, {});
  plan.slower->copies.push_back({3, 4096 - 64});
  expect(Rule::overlap, 4, "the copy of tensor 3");
}

TEST_F(VerifyMoving, ClaimsOfTimeAndSlowerMemory) {
  plan.slower->lanes.in.latency = 3;
  expect(Rule::wrong_claim, kNone, "but it costs");
  plan.slower->lanes.in.latency = 2;
  plan.slower->bytes = 64;
  expect(Rule::wrong_claim, kNone, "but it takes 4160");
}

/// The sample's plan, with x in slower memory when the step begins and when it ends.
struct VerifyResident : VerifyTest {
  VerifyResident() {
    plan.actions = {{Verb::prefetch, 0, {}},
                    {Verb::wait, 0, {}},
                    run(0),
                    free_of(0),
                    run(1),
                    run(2),
                    run(3, {0}),
                    free_of(1),
                    {Verb::prefetch, 0, {}},
                    {Verb::wait, 0, {}},
                    run(4),
                    {Verb::offload, 0, {}},
                    {Verb::wait, 0, {}},
                    free_of(0)};
    plan.slower = {.lanes = {.out = {1, 0.5}, .in = {2, 0.25}},
                   .copies = {{0, 4096}},
                   .bytes = 4096 + 64,
                   .residents = {0}};
    plan.cost = 4 + 2 * (2 + 16) + (1 + 32);
    plan.peak_bytes = 64 + 128 + 32;
    plan.layout = layout::assign_addresses(graph, plan);
    EXPECT_TRUE(testing::is_valid_plan(graph, plan));
  }

  void erase(std::size_t action) {
    const auto at = static_cast<std::ptrdiff_t>(action);
    plan.actions.erase(plan.actions.begin() + at);
    plan.layout->placements.erase(plan.layout->placements.begin() + at);
  }
};

TEST_F(VerifyResident, IsReadBeforeItIsThere) {
  plan.actions[0] = {Verb::prefetch, 1, {}};
  expect(Rule::bad_prefetch, 0, "tensor 1 (\"a\") is live or was never offloaded");
  plan.actions[0] = run(0);
  expect(Rule::input_not_live, 0, "needs tensor 0 (\"x\"), which is not live");
}

TEST_F(VerifyResident, IsReadBeforeItArrived) {
  std::swap(plan.actions[1], plan.actions[2]);
  expect(Rule::copy_under_way, 1, "whose copy has not arrived");
}

TEST_F(VerifyResident, IsFreedWithBytesThatAreInNoCopy) {
  erase(11);
  erase(11);
  expect(Rule::old_copy, 11, "tensor 0 (\"x\") is freed, and what was written to it is in no copy");
}

TEST_F(VerifyResident, IsCopiedBeforeItIsWritten) {
  std::swap(plan.actions[10], plan.actions[11]);
  expect(Rule::copy_under_way, 11, "op 4 (\"update\") writes tensor 0");
  std::swap(plan.actions[11], plan.actions[12]);
  expect(Rule::old_copy, 13, "in no copy");
}

TEST_F(VerifyResident, IsFreedWhileItIsCopied) {
  erase(12);
  expect(Rule::copy_under_way, 12, "is freed while a copy of it is under way");
}

TEST_F(VerifyResident, IsInMemoryAtTheEnd) {
  erase(13);
  expect(Rule::not_away, kNone, "is in memory at the end");
}

TEST_F(VerifyResident, IsNoResidentOrListedTwice) {
  plan.slower->residents = {0, 0};
  expect(Rule::bad_resident, kNone, "tensor 0 should lie in slower memory");
  plan.slower->residents = {1};
  expect(Rule::bad_resident, kNone, "tensor 1 should lie in slower memory");
  plan.slower->residents = {};
  expect(Rule::bad_prefetch, 0, "tensor 0 (\"x\") is live");
}

TEST_F(VerifyResident, HasNoPlaceInSlowerMemory) {
  plan.slower->copies.clear();
  expect(Rule::no_address, kNone, "tensor 0 (\"x\") is offloaded and has no address");
}

TEST_F(VerifyResident, KeepsItsPlaceInSlowerMemoryForTheWholeStep) {
  const std::vector<Action> moves{{Verb::offload, 4, {}}, {Verb::wait, 4, {}}};
  plan.actions.insert(plan.actions.end(), moves.begin(), moves.end());
  plan.layout->placements.resize(plan.actions.size());
  plan.slower->copies.push_back({4, 4096});
  expect(Rule::overlap, 14, "the copy of tensor 4");
}

TEST_F(VerifyResident, IsNeverWrittenOver) {
  graph = [] {
    GraphData data = sample();
    data.tensors[0].bytes = 128;
    data.ops[2].inputs = {2, 0};
    data.ops[2].inplace = {{0, 1}};
    return Graph(std::move(data));
  }();
  plan.actions = {{Verb::prefetch, 0, {}}, {Verb::wait, 0, {}}, run(0), run(1), run(2, {0})};
  plan.layout.reset();
  expect(Rule::bad_in_place, 4, "which is resident");
}

}  // namespace
}  // namespace lowtide
