#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace lowtide::testing {

/// The verdict of tools/check_plan.py, which shares no code with this program, on a plan.
struct PythonVerdict {
  bool valid = false;
  double cost = 0;
  Bytes peak_bytes = 0;
  std::optional<Bytes> arena_bytes;
  std::string error;
};

struct PlanCase {
  const Graph* graph;
  const Plan* plan;
};

/// One Python process for all; the budget of each plan is its own.
std::vector<PythonVerdict> python_verdicts(std::span<const PlanCase> cases);

/// Success when the verifier accepts the plan within `budget` (default: the plan's own), and
/// check_plan.py does too and finds the same cost, peak and arena:
///
///     EXPECT_TRUE(is_valid_plan(graph, plan, budget));
::testing::AssertionResult is_valid_plan(const Graph& graph, const Plan& plan,
                                         std::optional<Bytes> budget = std::nullopt);

/// The same for many plans, much faster: one Python process checks them all.
::testing::AssertionResult are_valid_plans(std::span<const PlanCase> cases);

}  // namespace lowtide::testing
