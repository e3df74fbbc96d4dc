#include "plan/io.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "layout/layout.h"
#include "plan/in_place.h"
#include "plan/lower.h"
#include "support/random_graph.h"

namespace lowtide {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

void expect_equal(const Plan& a, const Plan& b) {
  EXPECT_EQ(a.graph, b.graph);
  EXPECT_EQ(a.strategy, b.strategy);
  EXPECT_EQ(a.budget_bytes, b.budget_bytes);
  EXPECT_EQ(a.actions, b.actions);
  EXPECT_EQ(a.cost, b.cost);
  EXPECT_EQ(a.peak_bytes, b.peak_bytes);
  EXPECT_EQ(a.lower_bound, b.lower_bound);
  EXPECT_EQ(a.model, b.model);
  EXPECT_EQ(a.seconds, b.seconds);
  EXPECT_EQ(a.layout, b.layout);
  EXPECT_EQ(a.slower, b.slower);
}

TEST(PlanIo, WhatIsWrittenIsRead) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = testing::random_graph(seed);
    Plan plan = with_in_place(graph, lower(graph, testing::random_executions(graph, seed)));
    expect_equal(parse_plan(format_plan(plan)), plan);
    plan.layout = layout::assign_addresses(graph, plan);
    expect_equal(parse_plan(format_plan(plan)), plan);
    plan.layout->borders = {64, 4096};
    plan.strategy = "a \"strategy\" \\ with \n odd letters \u00e9";
    plan.budget_bytes = 1LL << 40;
    plan.lower_bound = 0.1 + 0.2;
    plan.model = "any-order";
    plan.seconds = 1e-7;
    plan.slower = {.lanes = {.out = {0.1, 1e-9}, .in = {0, 0.25}, .shared = true},
                   .copies = {{3, 0}, {1, 4096}},
                   .bytes = 1LL << 41};
    expect_equal(parse_plan(format_plan(plan)), plan);
  }
}

TEST(PlanIo, OnlyPlansWithResidentsThatMoveNeedTheThirdVersion) {
  Plan plan;
  plan.slower = {.lanes = {}, .copies = {{3, 0}}, .bytes = 64};
  EXPECT_THAT(format_plan(plan), HasSubstr("\"version\":2"));
  plan.slower->residents = {3, 1};
  const std::string text = format_plan(plan);
  EXPECT_THAT(text, HasSubstr("\"version\":3"));
  expect_equal(parse_plan(text), plan);
}

TEST(PlanIo, ReadsCopiesOfTheFirstVersion) {
  const Plan plan = parse_plan(R"({"format": "lowtide-plan", "version": 1, "cost": 1,
      "peak_bytes": 2, "budget_bytes": null, "later": {"unknown": [1]},
      "offsets": [[2, [["t", 0, 64]]]], "arena_bytes": 100,
      "actions": [["run", 0], ["offload", 0], ["prefetch", 0], ["run", 1, [0, 2]]]})");
  EXPECT_EQ(plan.actions[1], (Action{Verb::offload, 0, {}}));
  EXPECT_EQ(plan.actions[2], (Action{Verb::wait, 0, {}}));
  EXPECT_EQ(plan.actions[3], (Action{Verb::free, 0, {}}));
  EXPECT_EQ(plan.actions[4], (Action{Verb::prefetch, 0, {}}));
  EXPECT_EQ(plan.actions[5], (Action{Verb::wait, 0, {}}));
  EXPECT_EQ(plan.actions[6], (Action{Verb::run, 1, {0, 2}}));
  EXPECT_EQ(plan.budget_bytes, std::nullopt);
  EXPECT_EQ(plan.layout->placements[4].front(), (Placement{false, 0, 64}));
  EXPECT_EQ(plan.layout->arena_bytes, 100);
}

TEST(PlanIo, FilesRoundTripAndNameThemselvesInErrors) {
  const auto path = std::filesystem::path(::testing::TempDir()) / "lowtide_plan_io_test.json";
  const Plan plan = keep_all(testing::chain_graph(3));
  write_plan(plan, path);
  expect_equal(read_plan(path), plan);
  std::filesystem::remove(path);
  try {
    read_plan(path);
    FAIL() << "a file that does not exist was read";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr(path.string()));
  }
}

// ---- Bad input ---------------------------------------------------------------------------------

std::string error_of(std::string_view text) {
  try {
    parse_plan(text, "p.json");
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

/// A good plan with one key changed.
std::string error_with(const std::string& key, const std::string& json) {
  nlohmann::json plan = {
      {"format", "lowtide-plan"}, {"version", 1},      {"cost", 1},
      {"peak_bytes", 2},          {"arena_bytes", 64}, {"offsets", nlohmann::json::array()}};
  plan["actions"] = nlohmann::json::parse(R"([["run", 0], ["free", 1]])");
  if (json.empty()) {
    plan.erase(key);
  } else {
    plan[key] = nlohmann::json::parse(json);
  }
  return error_of(plan.dump());
}

TEST(PlanIoErrors, WhatIsNoPlan) {
  EXPECT_THAT(error_of(""), HasSubstr("p.json: the file is empty"));
  EXPECT_THAT(error_of("plan"), HasSubstr("not valid JSON"));
  EXPECT_THAT(error_of("[]"), HasSubstr("one JSON object"));
  EXPECT_THAT(error_of("{}"), HasSubstr("is missing"));
  EXPECT_THAT(error_of(std::string(100'000, '[')), HasSubstr("p.json: "));
  EXPECT_THAT(error_of("{\"a\": " + std::string(1'000'000, '[')), HasSubstr("nested more than"));
}

TEST(PlanIoErrors, EveryTruncation) {
  const Graph graph = testing::chain_graph(2);
  Plan plan = keep_all(graph);
  plan.layout = layout::assign_addresses(graph, plan);
  const std::string text = format_plan(plan);
  for (std::size_t length = 0; length + 2 < text.size(); ++length) {
    EXPECT_NE(error_of(text.substr(0, length)), "no error") << length;
  }
}

TEST(PlanIoErrors, KeysNameWhatIsWrong) {
  EXPECT_EQ(error_with("cost", "7"), "no error");
  EXPECT_THAT(error_with("format", "\"lowtide-graph\""),
              HasSubstr("must be \"lowtide-plan\", not \"lowtide-graph\""));
  EXPECT_THAT(error_with("version", "5"), HasSubstr("this program reads versions 1 to 4"));
  EXPECT_THAT(error_with("actions", ""), HasSubstr("the key \"actions\" is missing"));
  EXPECT_THAT(error_with("cost", ""), HasSubstr("the key \"cost\" is missing"));
  EXPECT_THAT(error_with("cost", "\"cheap\""), HasSubstr("\"cost\" must be a number"));
  EXPECT_THAT(error_with("peak_bytes", "1.5"), HasSubstr("\"peak_bytes\" must be a whole number"));
  EXPECT_THAT(error_with("peak_bytes", "18446744073709551615"), HasSubstr("below 2^63"));
  EXPECT_THAT(error_with("arena_bytes", ""), HasSubstr("\"arena_bytes\" is missing"));
  EXPECT_THAT(error_of(R"({"format": "lowtide-plan", "format": "lowtide-plan"})"),
              HasSubstr("appears twice"));
}

TEST(PlanIoErrors, ActionsNameTheItem) {
  const std::string item = "\"actions\" item 1 ";
  EXPECT_THAT(error_with("actions", R"([["run", 0], ["walk", 1]])"),
              HasSubstr(item + "must be \"run\", \"free\", \"offload\", \"prefetch\" or "));
  EXPECT_THAT(error_with("actions", R"([["run", 0], ["run", -1]])"), HasSubstr(item));
  EXPECT_THAT(error_with("actions", R"([["run", 0], ["run", 4294967296]])"), HasSubstr(item));
  EXPECT_THAT(error_with("actions", R"([["run", 0], ["run"]])"), HasSubstr(item));
  EXPECT_THAT(error_with("actions", R"([["run", 0], 7])"), HasSubstr(item + "must be a list"));
  EXPECT_THAT(error_with("actions", R"([["run", 0], ["free", 1, [0]]])"),
              HasSubstr(item + "has positions, which only a run may have"));
  EXPECT_THAT(error_with("actions", "{}"), HasSubstr("\"actions\" must be a list"));
}

TEST(PlanIoErrors, OffsetsNameTheItem) {
  EXPECT_THAT(error_with("offsets", R"([[5, []]])"), HasSubstr("for action 5, but there are 2"));
  EXPECT_THAT(error_with("offsets", R"([[0, [["x", 1, 0]]]])"), HasSubstr("\"offsets\" item 0"));
  EXPECT_THAT(error_with("offsets", R"([[0, [["t", 1]]]])"), HasSubstr("\"offsets\" item 0"));
  EXPECT_THAT(error_with("offsets", R"([[0]])"), HasSubstr("\"offsets\" item 0"));
  EXPECT_THAT(error_with("offsets", "7"), HasSubstr("\"offsets\" must be a list"));
}

TEST(PlanIoErrors, NeverShowWhatTheProgramIsMadeOf) {
  for (const std::string& text : {std::string("{\"format\": 1}"), std::string("nul"),
                                  std::string("{\"cost\": 1e999}"), std::string("\xff\xfe")}) {
    EXPECT_THAT(error_of(text), Not(HasSubstr("nlohmann")));
    EXPECT_THAT(error_of(text), Not(HasSubstr("exception")));
  }
}

}  // namespace
}  // namespace lowtide
