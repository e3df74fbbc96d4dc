#include "strategy/checkpointing.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "ops/op_def.h"
#include "plan/in_place.h"
#include "plan/lower.h"

namespace lowtide::strategy {
namespace {

/// Values below this share of the largest forward value do not count as crossing a cut.
constexpr double kSmallShare = 0.01;

class OnDemand {
 public:
  OnDemand(const remat::StageGraph& graph, int forward_end, Checkpoints chosen)
      : graph_(graph),
        forward_end_(forward_end),
        groups_(std::move(chosen.group)),
        last_of_group_(graph.num_stages()),
        here_(kept_in_any_case(graph, forward_end, std::move(chosen.kept))) {
    for (int i = 0; i < forward_end; ++i) last_of_group_[groups_[i]] = i;
  }

  std::vector<OpId> order() {
    for (int i = 0; i < forward_end_; ++i) order_.push_back(graph_.stage(i).op);
    for (int t = forward_end_; t < graph_.end(); ++t) {
      for (int v : graph_.stage(t).inputs) {
        if (!here_[v]) make_group_of(v, t);
      }
      order_.push_back(graph_.stage(t).op);
    }
    return std::move(order_);
  }

 private:
  /// Walks back from the end of the group, so that missing inputs are found on the way.
  void make_group_of(int value, int t) {
    const int group = groups_[graph_.value(value).producer];
    std::vector<bool> wanted(graph_.num_values());
    std::vector<int> reruns;
    for (int i = last_of_group_[group]; i >= 0; --i) {
      const bool rerun = std::ranges::any_of(graph_.stage(i).outputs, [&](int v) {
        const bool joins = groups_[i] == group && graph_.value(v).last_reader() >= t;
        return !here_[v] && (wanted[v] || joins);
      });
      if (!rerun) continue;
      reruns.push_back(i);
      for (int in : graph_.stage(i).inputs) wanted[in] = true;
    }
    for (auto i = reruns.rbegin(); i != reruns.rend(); ++i) {
      order_.push_back(graph_.stage(*i).op);
      for (int v : graph_.stage(*i).outputs) here_[v] = true;
    }
  }

  const remat::StageGraph& graph_;
  int forward_end_;
  std::vector<int> groups_;
  std::vector<int> last_of_group_;
  std::vector<bool> here_;
  std::vector<OpId> order_;
};

Bytes largest_forward_value(const remat::StageGraph& graph, int forward_end) {
  Bytes largest = 0;
  for (const remat::StageValue& value : graph.values()) {
    if (value.producer < forward_end) largest = std::max(largest, value.bytes);
  }
  return largest;
}

/// The last stage of the forward pass that reads the value; its producer if none does.
int last_forward_reader(const remat::StageValue& value, int forward_end) {
  const auto end = std::ranges::lower_bound(value.readers, forward_end);
  return end == value.readers.begin() ? value.producer : *(end - 1);
}

/// Over the forward stages that make something.
double median_cost_per_byte(const remat::StageGraph& graph, int forward_end) {
  std::vector<double> ratios;
  for (int i = 0; i < forward_end; ++i) {
    const auto bytes = static_cast<double>(output_bytes(graph, i));
    if (bytes > 0) ratios.push_back(graph.stage(i).cost / bytes);
  }
  if (ratios.empty()) return 0;
  const auto middle = ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2);
  std::ranges::nth_element(ratios, middle);
  return *middle;
}

}  // namespace

int forward_end(const remat::StageGraph& graph) {
  const auto& stages = graph.stages();
  const auto first =
      std::ranges::find_if(stages.begin(), stages.end() - 1,
                           [](const remat::Stage& stage) { return stage.phase != Phase::forward; });
  if (first != stages.end() - 1) return static_cast<int>(first - stages.begin());
  const std::vector<Bytes> profile = remat::keep_all_profile(graph);
  const int peak = static_cast<int>(std::ranges::max_element(profile) - profile.begin());
  return std::min(peak + 1, graph.end());
}

std::vector<int> lone_groups(const remat::StageGraph& graph) {
  std::vector<int> groups(graph.num_stages());
  std::iota(groups.begin(), groups.end(), 0);
  return groups;
}

/// Walks back through the forward pass: a value that is not kept needs its op's inputs then, too.
std::vector<bool> kept_in_any_case(const remat::StageGraph& graph, int forward_end,
                                   std::vector<bool> kept) {
  std::vector<int> needed_until(graph.num_values());
  for (int v = 0; v < graph.num_values(); ++v) needed_until[v] = graph.value(v).last_reader();
  for (int v : graph.stage(graph.end()).inputs) kept[v] = true;
  for (int i = graph.end() - 1; i >= 0; --i) {
    const remat::Stage& stage = graph.stage(i);
    for (int v : stage.outputs) {
      if (i >= forward_end || needed_until[v] > stage.deadline) kept[v] = true;
      if (kept[v] || needed_until[v] < forward_end) continue;
      for (int in : stage.inputs) needed_until[in] = std::max(needed_until[in], needed_until[v]);
    }
  }
  return kept;
}

std::vector<OpId> checkpointed_order(const remat::StageGraph& graph, int forward_end,
                                     Checkpoints chosen) {
  return OnDemand(graph, forward_end, std::move(chosen)).order();
}

std::vector<OpId> order_without_outputs(const remat::StageGraph& graph, int forward_end,
                                        std::span<const int> stages) {
  Checkpoints chosen{std::vector<bool>(graph.num_values(), true), lone_groups(graph)};
  for (int stage : stages) {
    for (int v : graph.stage(stage).outputs) chosen.kept[v] = false;
  }
  return checkpointed_order(graph, forward_end, std::move(chosen));
}

std::vector<Bytes> late_bytes(const remat::StageGraph& graph, int forward_end) {
  std::vector<Bytes> live(graph.num_stages() + 1);  // first as differences
  for (const remat::StageValue& value : graph.values()) {
    if (value.producer < forward_end) continue;
    live[value.producer] += value.bytes;
    live[value.last_reader() + 1] -= value.bytes;
  }
  std::partial_sum(live.begin(), live.end(), live.begin());
  live.pop_back();
  return live;
}

Bytes output_bytes(const remat::StageGraph& graph, int stage) {
  Bytes sum = 0;
  for (int v : graph.stage(stage).outputs) sum += graph.value(v).bytes;
  return sum;
}

std::vector<int> most_bytes_per_cost_first(const remat::StageGraph& graph,
                                           std::vector<int> stages) {
  const auto price = [&](int i) {
    return graph.stage(i).cost / static_cast<double>(output_bytes(graph, i));
  };
  std::ranges::stable_sort(stages, {}, price);
  return stages;
}

std::vector<bool> cheap_stages(const Graph& graph, const remat::StageGraph& stages,
                               int forward_end) {
  const double limit = median_cost_per_byte(stages, forward_end);
  std::vector<bool> cheap(stages.num_stages());
  for (int i = 0; i < forward_end; ++i) {
    const remat::Stage& stage = stages.stage(i);
    const auto bytes = static_cast<double>(output_bytes(stages, i));
    const ops::OpDef* known = ops::find_op(graph.op(stage.op).type);
    cheap[i] = bytes > 0 && (known ? known->cheap : stage.cost <= limit * bytes);
  }
  return cheap;
}

std::vector<Cut> forward_cuts(const remat::StageGraph& graph, int forward_end) {
  const auto small = static_cast<Bytes>(
      kSmallShare * static_cast<double>(largest_forward_value(graph, forward_end)));
  std::vector<Cut> cuts(forward_end + 2);   // first as differences
  std::vector<int> names(forward_end + 2);  // sum of the crossing large values
  const auto count = [&](int stage, const remat::StageValue& value, int name, int sign) {
    cuts[stage].crossing += sign * value.bytes;
    if (value.bytes <= small) return;
    cuts[stage].large_crossing += sign;
    names[stage] += sign * name;
  };
  for (int v = 0; v < graph.num_values(); ++v) {
    const remat::StageValue& value = graph.value(v);
    if (value.producer >= forward_end) continue;
    count(value.producer + 1, value, v, 1);
    count(last_forward_reader(value, forward_end) + 1, value, v, -1);
  }
  for (int i = 1; i < forward_end; ++i) {
    cuts[i].stage = i;
    cuts[i].crossing += cuts[i - 1].crossing;
    cuts[i].large_crossing += cuts[i - 1].large_crossing;
    names[i] += names[i - 1];
    if (cuts[i].large_crossing == 1) cuts[i].value = names[i];
  }
  return {cuts.begin() + 1, cuts.begin() + std::max(1, forward_end)};
}

std::vector<Cut> articulation_cuts(const remat::StageGraph& graph, int forward_end) {
  std::vector<Cut> points = forward_cuts(graph, forward_end);
  std::erase_if(points, [](const Cut& cut) { return cut.value == kNone; });
  const auto repeated = std::ranges::unique(points, {}, &Cut::value);
  points.erase(repeated.begin(), repeated.end());
  return points;
}

std::vector<int> even_cuts(int forward_end, int count) {
  std::vector<int> cuts;
  for (int k = 1; k < count; ++k) {
    cuts.push_back(static_cast<int>(std::int64_t{forward_end} * k / count));
  }
  return cuts;
}

std::vector<int> useful_counts(int most) {
  std::vector<int> counts;
  for (int k = 1; k < most; k += 1 + k / 8) counts.push_back(k);
  counts.push_back(most);
  return counts;
}

Checkpoints segmented(const remat::StageGraph& graph, int forward_end,
                      const std::vector<int>& cuts) {
  Checkpoints result{std::vector<bool>(graph.num_values()), std::vector<int>(graph.num_stages())};
  for (int i = 0; i < graph.num_stages(); ++i) {
    result.group[i] = static_cast<int>(std::ranges::upper_bound(cuts, i) - cuts.begin());
  }
  const int last_group = static_cast<int>(cuts.size());
  for (int v = 0; v < graph.num_values(); ++v) {
    const remat::StageValue& value = graph.value(v);
    const int group = result.group[value.producer];
    const int last = last_forward_reader(value, forward_end);
    result.kept[v] = group == last_group || result.group[last] != group;
  }
  return result;
}

Bytes Trials::offer(std::vector<OpId> executions) {
  const Plan plan = with_in_place(request_.graph, lower(request_.graph, executions));
  if (!smallest_ || plan.peak_bytes < *smallest_) {
    smallest_ = plan.peak_bytes;
    smallest_executions_ = executions;
  }
  const bool better = !any_fits() || plan.cost < best_cost_;
  if (plan.peak_bytes <= request_.budget_bytes && better) {
    best_.outcome = Outcome::feasible;
    best_.executions = std::move(executions);
    best_cost_ = plan.cost;
  }
  return plan.peak_bytes;
}

Decision Trials::decision(const std::string& how) const {
  if (any_fits()) return best_;
  Decision result;
  result.smallest_peak = smallest_;
  result.smallest_executions = smallest_executions_;
  result.message = fmt::format("the smallest budget that {} can reach is {} bytes ({})", how,
                               smallest_.value_or(0), format_bytes(smallest_.value_or(0)));
  return result;
}

Decision Trials::stopped() const {
  if (any_fits()) return best_;
  Decision result;
  result.outcome = Outcome::stopped;
  result.smallest_peak = smallest_;
  result.smallest_executions = smallest_executions_;
  result.message = "stopped before a plan within the budget was found";
  return result;
}

CutGraph cut_graph(const Graph& graph) {
  CutGraph cut{remat::StageGraph(graph)};
  cut.forward_end = forward_end(cut.graph);
  cut.points = articulation_cuts(cut.graph, cut.forward_end);
  return cut;
}

Decision decide_at_articulation_points(
    const PlanRequest& request, const std::function<Decision(const CutGraph&, Trials&)>& decide) {
  const CutGraph cut = cut_graph(request.graph);
  Trials trials(request);
  trials.offer(remat::stage_order(cut.graph));
  if (!cut.points.empty()) return decide(cut, trials);
  Decision result = trials.decision("keep-all");
  const std::string why = "the forward pass has no articulation points";
  result.message = trials.any_fits() ? why : why + "; " + result.message;
  return result;
}

}  // namespace lowtide::strategy
