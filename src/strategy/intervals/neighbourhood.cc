#include "strategy/intervals/neighbourhood.h"

#include <algorithm>
#include <set>

namespace lowtide::strategy::intervals {
namespace {

/// For one op. Other neighbourhoods can still reach the omitted stages, through other
/// readers.
constexpr std::size_t kMostStarts = 32;

std::vector<int> starts_of(const remat::StageGraph& graph, const remat::EventPlan& plan,
                           const Starts& later, int op) {
  std::set<int> stages;
  const auto add = [&](const std::vector<int>& runs) {
    for (int t : runs) {
      if (graph.may_rerun(op, t)) stages.insert(t);
    }
  };
  for (int v : graph.stage(op).outputs) {
    for (int reader : graph.value(v).readers) {
      add(plan.runs(reader));
      add(later[reader]);
    }
  }
  while (stages.size() > kMostStarts) stages.erase(stages.begin());
  return {stages.begin(), stages.end()};
}

}  // namespace

Starts starts_at_uses(const remat::StageGraph& graph, const remat::EventPlan& plan,
                      std::span<const int> ops) {
  Starts starts(graph.num_stages());
  for (auto op = ops.rbegin(); op != ops.rend(); ++op) {
    starts[*op] = starts_of(graph, plan, starts, *op);
  }
  return starts;
}

Neighbourhoods::Neighbourhoods(const remat::StageGraph& graph, std::uint64_t seed)
    : graph_(graph), values_(remat::movable_values(graph)), random_(seed) {}

std::vector<int> Neighbourhoods::draw(const remat::EventPlan& plan) {
  constexpr int kLeast = 3;
  constexpr int kMost = 20;
  const auto size = static_cast<std::size_t>(kLeast + pick(kMost - kLeast + 1));
  std::vector<int> ops;
  if (values_.empty()) return ops;
  const int kind = pick(3);
  if (kind == 0) add_stretch(ops, size);
  if (kind == 1) add_around(plan, ops, size);
  if (kind == 2) add_across(plan, ops, size);
  std::ranges::sort(ops);
  const auto repeated = std::ranges::unique(ops);
  ops.erase(repeated.begin(), repeated.end());
  return ops;
}

void Neighbourhoods::add_stretch(std::vector<int>& ops, std::size_t size) {
  const int last = static_cast<int>(values_.size());
  for (int v = pick(last); v < last && ops.size() < size; ++v) {
    ops.push_back(graph_.value(values_[v]).producer);
  }
}

/// Random makers of inputs and readers of outputs of the ops so far.
void Neighbourhoods::add_around(const remat::EventPlan& plan, std::vector<int>& ops,
                                std::size_t size) {
  const int events = static_cast<int>(plan.events().size());
  if (events > 0) {
    ops.push_back(plan.events()[pick(events)].op);
  } else {
    const int v = values_[pick(static_cast<int>(values_.size()))];
    ops.push_back(graph_.value(v).producer);
  }
  for (std::size_t i = 1; i < size; ++i) {
    const remat::Stage& stage = graph_.stage(ops[pick(static_cast<int>(ops.size()))]);
    if (!stage.inputs.empty() && pick(2) == 0) {
      const int v = stage.inputs[pick(static_cast<int>(stage.inputs.size()))];
      ops.push_back(graph_.value(v).producer);
    } else if (!stage.outputs.empty()) {
      const int v = stage.outputs[pick(static_cast<int>(stage.outputs.size()))];
      const std::vector<int>& readers = graph_.value(v).readers;
      if (!readers.empty()) ops.push_back(readers[pick(static_cast<int>(readers.size()))]);
    }
  }
}

void Neighbourhoods::add_across(const remat::EventPlan& plan, std::vector<int>& ops,
                                std::size_t size) {
  const int somewhere = pick(graph_.num_stages());
  const int over = plan.memory().over_after(somewhere);
  const int stage = over >= 0 ? over : somewhere;
  std::vector<int> across;
  for (int v : values_) {
    const remat::StageValue& value = graph_.value(v);
    if (value.producer < stage && stage < value.last_reader()) across.push_back(value.producer);
  }
  while (!across.empty() && ops.size() < size) {
    const int at = pick(static_cast<int>(across.size()));
    ops.push_back(across[at]);
    across[at] = across.back();
    across.pop_back();
  }
}

}  // namespace lowtide::strategy::intervals
