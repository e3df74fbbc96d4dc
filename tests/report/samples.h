#pragma once

#include "graph/graph.h"
#include "plan/lower.h"
#include "plan/plan.h"
#include "support/random_graph.h"

namespace lowtide::testing {

/// resident w (100 bytes); a = big(w), b = small(a), c = last(b, a):
/// a has 1000 bytes, b 200, c 50; last is a backward op with 30 bytes of workspace.
inline Graph three_ops() {
  GraphData data;
  data.name = "three <ops> & \"more\"";
  data.tensors = {resident("w", 100), value("a", 1000), value("b", 200), value("c", 50)};
  data.ops = {op("big", {0}, {1}, 10), op("small", {1}, {2}, 4), op("last", {2, 1}, {3}, 6, 30)};
  data.ops[2].phase = Phase::backward;
  data.outputs = {3};
  return Graph(data);
}

/// Runs big again right before last, so that a is dropped in between.
inline Plan with_recomputation(const Graph& graph) {
  const OpId order[] = {0, 1, 0, 2};
  Plan plan = lower(graph, order);
  plan.budget_bytes = 1500;
  return plan;
}

/// Moves a away, and back right before last: 20 to copy it out, and 10 to copy it back.
inline Plan with_moves(const Graph& graph) {
  Plan plan = keep_all(graph);
  plan.actions = {{Verb::run, 0, {}},  {Verb::offload, 1, {}},  {Verb::run, 1, {}},
                  {Verb::wait, 1, {}}, {Verb::free, 1, {}},     {Verb::prefetch, 1, {}},
                  {Verb::wait, 1, {}}, {Verb::run, 2, {}},      {Verb::free, 1, {}},
                  {Verb::free, 2, {}}};
  plan.slower = {.lanes = {{0, 0.02}, {0, 0.01}}, .copies = {{1, 0}}, .bytes = 1000};
  return plan;
}

}  // namespace lowtide::testing
