#include "offload/published.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "offload/schedule.h"
#include "planner/realize.h"
#include "remat/event_plan.h"

namespace lowtide::offload {
namespace {

/// That a value is not there from one use until the next.
struct Eviction {
  TensorId value;
  OpId next_use;
  bool reruns;  ///< its op runs again; otherwise it leaves and comes back
};

/// The stage of an op that every plan runs.
std::vector<int> stages_by_op(const remat::StageGraph& stages, const Graph& graph) {
  std::vector<int> result(graph.ops().size(), kNone);
  for (int i = 0; i < stages.end(); ++i) result[stages.stage(i).op] = i;
  return result;
}

/// The ops in the graph's order, and before each use that ends an eviction the run or the load that
/// makes the value again.
class Order {
 public:
  Order(const Graph& graph, const LoadGraph& loads)
      : stages_(loads.graph),
        stage_(stages_by_op(stages_, loads.graph)),
        plan_(stages_, 0),
        places_(load_places(graph, loads)) {}

  void add(const Graph& graph, const Eviction& eviction) {
    const OpId maker =
        eviction.reruns ? places_.op[graph.producer(eviction.value)] : places_.load[eviction.value];
    const int stage = stage_[places_.op[eviction.next_use]];
    if (maker == kNone || stage == kNone || stage_[maker] == kNone) return;
    const remat::Event event{stage, stage_[maker]};
    if (!plan_.contains(event) && stages_.may_rerun(event.op, event.stage)) plan_.add(event);
  }

  std::vector<OpId> executions() const { return remat::executions_of(stages_, plan_.events()); }

 private:
  remat::StageGraph stages_;
  std::vector<int> stage_;  ///< by op of the graph with loads
  remat::EventPlan plan_;
  const LoadPlaces places_;
};

Plan plan_of(const Graph& graph, std::span<const Eviction> evictions, const Lanes& lanes,
             Bytes budget, std::span<const double> hurries) {
  std::vector<std::optional<double>> prices(graph.tensors().size());
  for (const Eviction& eviction : evictions) {
    if (!eviction.reruns) prices[eviction.value] = 0;
  }
  const LoadGraph loads = with_loads(graph, prices);
  Order order(graph, loads);
  for (const Eviction& eviction : evictions) order.add(graph, eviction);
  const Plan lowered = planner::lower_in_place(loads.graph, order.executions());
  return schedule(graph, loads, lowered, {lanes}, budget, hurries);
}

/// What a value could be evicted for, and what that gains.
struct Candidate {
  Eviction eviction;
  double free_time;  ///< that it rests, less the time of its copies
};

/// The longest rest of each movable value.
std::vector<Candidate> candidates_of(const Graph& graph, const Lanes& lanes) {
  const std::vector<bool> may_move = movable(graph);
  const remat::StageGraph stages(graph);
  std::vector<double> begins(static_cast<std::size_t>(stages.num_stages()) + 1);
  for (int i = 0; i < stages.num_stages(); ++i) begins[i + 1] = begins[i] + stages.stage(i).cost;
  std::vector<Candidate> result;
  for (const remat::StageValue& value : stages.values()) {
    if (!may_move[value.tensor]) continue;
    const double copies = lanes.time_of_both(value.bytes);
    std::optional<Candidate> longest;
    int before = value.producer;
    for (int reader : value.readers) {
      const double free_time = begins[reader] - begins[before + 1] - copies;
      if (reader > before + 1 && reader != stages.end() &&
          (!longest || free_time > longest->free_time)) {
        const bool may_rerun = stages.may_rerun(value.producer, reader);
        const bool reruns = may_rerun && stages.stage(value.producer).cost < -free_time;
        longest = {{value.tensor, stages.stage(reader).op, reruns}, free_time};
      }
      before = reader;
    }
    if (longest) result.push_back(*longest);
  }
  return result;
}

/// A copy in begins when it is needed, and no value stays until its copy out is over.
constexpr std::array kAtOnce{1.0};

}  // namespace

Plan save_on_cpu(const Graph& graph, const Lanes& lanes) {
  const std::vector<bool> may_move = movable(graph);
  std::vector<bool> is_saved(graph.tensors().size());
  std::vector<Eviction> evictions;
  for (OpId id = 0; id < graph.num_ops(); ++id) {
    if (graph.op(id).phase == Phase::forward || graph.is_view_op(id)) continue;
    for (TensorId in : graph.op(id).inputs) {
      const TensorId storage = graph.storage(in);
      if (!may_move[storage] || is_saved[storage]) continue;
      is_saved[storage] = true;
      if (graph.op(graph.producer(storage)).phase == Phase::forward) {
        evictions.push_back({storage, id, /*reruns=*/false});
      }
    }
  }
  return plan_of(graph, evictions, lanes, /*budget=*/0, kAtOnce);
}

Plan capuchin(const Graph& graph, Bytes budget, const Lanes& lanes) {
  std::vector<Candidate> candidates = candidates_of(graph, lanes);
  std::ranges::stable_sort(candidates, std::ranges::greater{}, &Candidate::free_time);
  std::vector<Eviction> evictions;
  for (const Candidate& candidate : candidates) evictions.push_back(candidate.eviction);
  const auto with_first = [&](std::size_t count) {
    return plan_of(graph, std::span(evictions).first(count), lanes, budget, kHurries);
  };
  std::size_t fewest = 0, most = evictions.size();
  while (fewest < most) {
    const std::size_t middle = (fewest + most) / 2;
    if (with_first(middle).peak_bytes <= budget) {
      most = middle;
    } else {
      fewest = middle + 1;
    }
  }
  return with_first(most);
}

}  // namespace lowtide::offload
