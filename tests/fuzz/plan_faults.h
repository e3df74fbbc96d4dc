#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz/plan_answers.h"

namespace lowtide::testing {

/// What came of a case.
struct PlanReading {
  PlanTally tally;
  std::string fault;  ///< the forbidden behaviour; "" for none
};

/// A case: a number, and a graph (varied_graph.h) in the lines after it. The same seed makes the
/// same case.
std::string plan_case(std::uint64_t seed);

/// Asks every strategy, with slower memory too, about the graph of a case, within budgets drawn
/// from its number: nothing, what a refusal names and a byte less, what keep-all needs, no limit.
/// Limits are of work alone, so that the same case has the same effect. Then
///
/// * plans must be valid for the verifier, for check_plan.py in some cases, and for a plain count
/// of bytes, within the budget with all that is needed after the step, and the same when written
/// and read;
/// * no bound is above the cost of any plan that it is for, and certificates are accepted;
/// * a budget that a refusal names must do, the same request have the same answer, also with other
/// labels, and more ways, more slower memory or a plan that is known give no worse one;
/// * packings of all methods and pools must overlap nowhere.
PlanReading read_as_plan_case(std::string_view text);

}  // namespace lowtide::testing
