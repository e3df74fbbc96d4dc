#pragma once

#include "fuzz/plan_answers.h"
#include "support/chance.h"

namespace lowtide::testing {

/// A budget that may be told from others: nothing, the floor, what keep-all needs, one byte less
/// than these, no limit, or anything between.
Bytes some_budget(const Graph& graph, Chance& chance);

/// Asks each strategy of the registry within a budget of its own.
void ask_strategies(const Graph& graph, Chance& chance, PlanAnswers& answers);

/// Asks each way of using slower memory within one budget.
void ask_with_slower_memory(const Graph& graph, Chance& chance, PlanAnswers& answers);

/// Packs the buffers of some plan by each method and pool, and gives its addresses to others.
void ask_packings(const Graph& graph, Chance& chance, PlanAnswers& answers);

}  // namespace lowtide::testing
