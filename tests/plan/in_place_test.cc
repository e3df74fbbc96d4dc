#include "plan/in_place.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "plan/lower.h"
#include "plan/replay.h"
#include "plan/verify.h"
#include "support/random_graph.h"

namespace lowtide {
namespace {

using testing::random_graph;

/// A write that could be added to a plan without any: by the run at an action, instead of the free
/// of the input's storage.
struct Choice {
  std::size_t run, free;
  int output;
};

std::vector<Choice> choices(const Graph& graph, const Plan& plan) {
  std::vector<Choice> all;
  for (std::size_t at = 0; at < plan.actions.size(); ++at) {
    if (plan.actions[at].verb != Verb::run) continue;
    const Op& here = graph.op(plan.actions[at].index);
    for (std::size_t k = at + 1; k < plan.actions.size(); ++k) {
      if (plan.actions[k].verb != Verb::free) break;
      for (const InPlace& pair : here.inplace) {
        const bool dies = graph.storage(here.inputs[pair.input]) == plan.actions[k].index;
        if (dies && may_overwrite(graph, here, pair)) all.push_back({at, k, pair.output});
      }
    }
  }
  return all;
}

/// Every plan that makes some of these writes, each free and each output at most once.
void for_each_plan(const Plan& plan, const std::vector<Choice>& all,
                   const std::function<void(const Plan&)>& visit) {
  for (std::uint64_t set = 0; set < std::uint64_t{1} << all.size(); ++set) {
    Plan marked = plan;
    std::vector<bool> dropped(plan.actions.size());
    bool clashes = false;
    for (std::size_t k = 0; k < all.size(); ++k) {
      if ((set >> k & 1) == 0) continue;
      std::vector<int>& outputs = marked.actions[all[k].run].in_place;
      clashes = clashes || dropped[all[k].free] || std::ranges::count(outputs, all[k].output) > 0;
      dropped[all[k].free] = true;
      outputs.push_back(all[k].output);
    }
    if (clashes) continue;
    std::vector<Action> kept;
    for (std::size_t k = 0; k < dropped.size(); ++k) {
      if (!dropped[k]) kept.push_back(marked.actions[k]);
    }
    marked.actions = kept;
    visit(marked);
  }
}

/// Second outputs of ops may be written in place too, some over the same input as the first.
Graph with_more_choices(const Graph& graph) {
  GraphData data = graph.data();
  for (Op& here : data.ops) {
    if (here.outputs.size() < 2 || here.inputs.empty()) continue;
    const TensorId second = here.outputs[1];
    const int input = here.inplace.empty() ? 0 : here.inplace.front().input;
    const TensorId source = graph.storage(here.inputs[input]);
    if (data.tensors[second].alias_of != kNone || graph.is_resident(source)) continue;
    data.tensors[second].bytes = data.tensors[source].bytes;
    here.inplace.push_back({1, input});
  }
  return Graph(std::move(data));
}

TEST(InPlaceChoice, NoOtherHasALowerPeak) {
  int chosen = 0, clashing = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const Graph graph = with_more_choices(
        random_graph(seed, {.ops = 10 + static_cast<int>(seed % 30)}));
    const Plan lowered = lower(graph, testing::random_executions(graph, seed));
    const std::vector<Choice> all = choices(graph, lowered);
    if (all.empty() || all.size() > 7) continue;
    const Plan marked = with_in_place(graph, lowered);
    EXPECT_FALSE(verify(graph, marked));
    int plans = 0;
    for_each_plan(lowered, all, [&](Plan plan) {
      const Replay replayed = replay(graph, plan);
      plan.peak_bytes = replayed.peak_bytes;
      EXPECT_FALSE(verify(graph, plan));
      EXPECT_GE(plan.peak_bytes, marked.peak_bytes);
      ++plans;
    });
    clashing += plans < 1 << all.size();
    ++chosen;
  }
  EXPECT_GT(chosen, 100);
  EXPECT_GT(clashing, 10);
}

}  // namespace
}  // namespace lowtide
