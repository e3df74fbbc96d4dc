#include "report/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "plan/replay.h"
#include "report/samples.h"

namespace lowtide::testing {
namespace {

using Json = nlohmann::json;
using ::testing::DoubleNear;
using ::testing::ElementsAre;

/// The events of one kind: "X" slices, "C" counters, "M" names.
std::vector<Json> events(const std::string& trace, std::string_view phase,
                         std::string_view name = "") {
  std::vector<Json> found;
  const Json document = Json::parse(trace);
  for (const Json& event : document["traceEvents"]) {
    if (event["ph"] == phase && (name.empty() || event["name"] == name)) found.push_back(event);
  }
  return found;
}

std::vector<double> numbers(const std::vector<Json>& list, const Json::json_pointer& at) {
  std::vector<double> result;
  for (const Json& event : list) result.push_back(event[at]);
  return result;
}

TEST(Trace, DrawsRunsOneAfterTheOther) {
  const Graph graph = three_ops();
  const auto slices = events(report::format_trace(graph, with_recomputation(graph)), "X");
  ASSERT_EQ(slices.size(), 4u);
  EXPECT_THAT(numbers(slices, "/ts"_json_pointer), ElementsAre(0, 10, 14, 24));
  EXPECT_THAT(numbers(slices, "/dur"_json_pointer), ElementsAre(10, 4, 10, 6));
  EXPECT_THAT(numbers(slices, "/tid"_json_pointer), ElementsAre(1, 1, 1, 2));
}

TEST(Trace, MarksRecomputations) {
  const Graph graph = three_ops();
  const auto slices = events(report::format_trace(graph, with_recomputation(graph)), "X");
  EXPECT_EQ(slices[0]["cat"], "execution");
  EXPECT_FALSE(slices[0].contains("cname"));
  EXPECT_EQ(slices[2]["name"], "big again");
  EXPECT_EQ(slices[2]["cat"], "recomputation");
  EXPECT_TRUE(slices[2].contains("cname"));
  EXPECT_EQ(slices[2]["args"]["execution"], 2);
}

TEST(Trace, CountsTheReplayedBytes) {
  const Graph graph = three_ops();
  const Plan plan = with_recomputation(graph);
  const std::string trace = report::format_trace(graph, plan);
  const auto in_use = events(trace, "C", "bytes in use");
  const Replay replayed = replay(graph, plan);
  ASSERT_EQ(in_use.size(), replayed.memory.size() + 1);
  EXPECT_EQ(in_use[0]["args"]["bytes"], 100);
  for (std::size_t i = 0; i < replayed.memory.size(); ++i) {
    EXPECT_EQ(in_use[i + 1]["args"]["bytes"], replayed.memory[i]);
  }
  const auto budget = events(trace, "C", "budget");
  EXPECT_THAT(numbers(budget, "/args/bytes"_json_pointer), ElementsAre(1500, 1500));
  EXPECT_THAT(numbers(budget, "/ts"_json_pointer), ElementsAre(0, 30));
}

TEST(Trace, PrefersMeasurements) {
  const Graph graph = three_ops();
  const Plan plan = keep_all(graph);
  std::vector<double> seconds(plan.actions.size(), 0.5e-6);
  std::vector<Bytes> memory;
  for (std::size_t i = 0; i < plan.actions.size(); ++i) memory.push_back(static_cast<Bytes>(7 + i));
  const std::string trace = report::format_trace(graph, plan, {seconds, memory});
  for (const Json& slice : events(trace, "X")) {
    EXPECT_THAT(slice["dur"].get<double>(), DoubleNear(0.5, 1e-12));
  }
  const auto in_use = events(trace, "C", "bytes in use");
  ASSERT_EQ(in_use.size(), memory.size() + 1);
  EXPECT_EQ(in_use[1]["args"]["bytes"], 7);
  EXPECT_THAT(in_use[1]["ts"].get<double>(), DoubleNear(0.5, 1e-12)) << "after the action";
}

TEST(Trace, NamesATrackForEachPhase) {
  const Graph graph = three_ops();
  std::vector<std::string> names;
  for (const Json& event :
       events(report::format_trace(graph, keep_all(graph)), "M", "thread_name")) {
    names.push_back(event["args"]["name"]);
  }
  EXPECT_THAT(names, ElementsAre("forward", "backward", "optimizer", "transfers"));
}

TEST(Trace, ConvertsNanoseconds) {
  GraphData data = three_ops().data();
  data.cost_unit = "ns";
  const Graph graph(data);
  const auto slices = events(report::format_trace(graph, keep_all(graph)), "X");
  EXPECT_THAT(slices[0]["dur"].get<double>(), DoubleNear(0.01, 1e-12));
}

TEST(Trace, RefusesMeasurementsOfAnotherPlan) {
  const Graph graph = three_ops();
  const std::vector<double> seconds(1);
  EXPECT_THROW(report::format_trace(graph, keep_all(graph), {seconds, {}}), std::logic_error);
}

TEST(Trace, TellsTransfers) {
  const Graph graph = three_ops();
  Plan plan = keep_all(graph);
  plan.actions = {{Verb::run, 0, {}},  {Verb::offload, 1, {}},  {Verb::wait, 1, {}},
                  {Verb::free, 1, {}}, {Verb::prefetch, 1, {}}, {Verb::wait, 1, {}}};
  const auto slices = events(report::format_trace(graph, plan), "X");
  ASSERT_EQ(slices.size(), 5u);
  EXPECT_EQ(slices[1]["name"], "offload a");
  EXPECT_EQ(slices[2]["name"], "wait a");
  EXPECT_EQ(slices[3]["name"], "prefetch a");
}

}  // namespace
}  // namespace lowtide::testing
