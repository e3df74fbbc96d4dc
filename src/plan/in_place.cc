#include "plan/in_place.h"

#include <algorithm>
#include <utility>

#include "graph/extent.h"
#include "plan/replay.h"

namespace lowtide {
namespace {

/// Whether `id` has the same elements as its storage in the same order, so that a write over the
/// storage is a write over `id`.
bool covers_storage(const Graph& graph, TensorId id) {
  const Tensor& tensor = graph.tensor(id);
  if (tensor.alias_of == kNone) return true;
  if (!tensor.dtype || !tensor.strides.empty()) return false;
  return element_bytes(tensor) == graph.tensor(tensor.alias_of).bytes;
}

/// The frees right after action `at`, as [first, last).
std::pair<std::size_t, std::size_t> frees_after(const std::vector<Action>& actions,
                                                std::size_t at) {
  std::size_t end = at + 1;
  while (end < actions.size() && actions[end].verb == Verb::free) ++end;
  return {at + 1, end};
}

/// Marks the outputs that the run at `at` can write in place; marks the unnecessary frees in
/// `dropped`.
void mark_in_place(const Graph& graph, std::vector<Action>& actions, std::size_t at,
                   std::vector<bool>& dropped) {
  const Op& op = graph.op(actions[at].index);
  const auto [begin, end] = frees_after(actions, at);
  for (const InPlace& pair : op.inplace) {
    std::vector<int>& marked = actions[at].in_place;
    if (std::ranges::count(marked, pair.output) || !may_overwrite(graph, op, pair)) continue;
    const TensorId source = graph.storage(op.inputs[pair.input]);
    for (std::size_t i = begin; i < end; ++i) {
      if (dropped[i] || graph.storage(actions[i].index) != source) continue;
      dropped[i] = true;
      marked.push_back(pair.output);
      break;
    }
  }
}

}  // namespace

bool may_overwrite(const Graph& graph, const Op& op, const InPlace& pair) {
  const TensorId input = op.inputs[pair.input];
  const TensorId target = op.outputs[pair.output];
  const TensorId source = graph.storage(input);
  const auto shares = [&](TensorId id) { return graph.storage(id) == source; };
  // Sizes must be equal: the rest of a larger source would become free while the op still reads
  // it.
  return graph.tensor(target).alias_of == kNone && !graph.is_resident(source) &&
         graph.tensor(target).bytes == graph.tensor(source).bytes && covers_storage(graph, input) &&
         std::ranges::count_if(op.inputs, shares) == 1 && std::ranges::none_of(op.outputs, shares);
}

std::vector<Action> marked_in_place(const Graph& graph, std::vector<Action> actions) {
  std::vector<bool> dropped(actions.size());
  for (std::size_t at = 0; at < actions.size(); ++at) {
    if (actions[at].verb == Verb::run) mark_in_place(graph, actions, at, dropped);
  }
  std::vector<Action> kept;
  kept.reserve(actions.size());
  for (std::size_t at = 0; at < actions.size(); ++at) {
    if (!dropped[at]) kept.push_back(std::move(actions[at]));
  }
  return kept;
}

Plan with_in_place(const Graph& graph, Plan plan) {
  plan.actions = marked_in_place(graph, std::move(plan.actions));
  plan.layout.reset();
  const Replay replayed = replay(graph, plan);
  plan.cost = replayed.cost;
  plan.peak_bytes = replayed.peak_bytes;
  return plan;
}

}  // namespace lowtide
