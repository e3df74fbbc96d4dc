#include "ordering/lower_memory_order.h"

#include <utility>

#include "ordering/annealing.h"
#include "ordering/list_orders.h"
#include "ordering/schedule.h"
#include "ordering/unrolled.h"

namespace lowtide::ordering {
namespace {

/// Below this saved share of the bytes above the limit, another order is not worth its search.
constexpr double kWorthwhile = 0.03;

/// Temperatures, times the mean bytes above the limit.
constexpr double kHot = 2;
constexpr double kWarm = 0.1;
constexpr double kCold = 2e-3;

/// All ops in the order of their stages. Views come right before their first reader, and unneeded
/// ops at the end.
class Unfolding {
 public:
  explicit Unfolding(const Graph& graph) : graph_(graph), is_done_(graph.num_ops()) {}

  std::vector<OpId> ops(std::span<const OpId> stages) {
    for (OpId id : stages) add(id);
    for (OpId id = 0; id < graph_.num_ops(); ++id) {
      if (!is_done_[id]) add(id);
    }
    return std::move(ops_);
  }

 private:
  void add(OpId id) {
    is_done_[id] = true;
    for (TensorId in : graph_.op(id).inputs) {
      const OpId producer = graph_.producer(in);
      if (producer != kNone && !is_done_[producer]) add(producer);
    }
    ops_.push_back(id);
  }

  const Graph& graph_;
  std::vector<bool> is_done_;  // per op
  std::vector<OpId> ops_;
};

}  // namespace

std::optional<std::vector<OpId>> lower_memory_order(const Graph& graph,
                                                    const remat::StageGraph& stages, Bytes limit,
                                                    const OrderEffort& effort,
                                                    const Control& control) {
  constexpr double kFirstPart = 0.05;  // of the moves, which only go downhill
  if (stages.end() < 2) return std::nullopt;
  const Precedence precedence(graph, stages);
  Schedule schedule(stages, precedence, limit);
  const std::vector<int> given = schedule.order();
  const auto excess = static_cast<double>(schedule.excess());
  const auto is_worth_it = [&] {
    return static_cast<double>(schedule.excess()) < (1 - kWorthwhile) * excess;
  };
  Annealing annealing(schedule, effort.seed, control);
  const double mean = excess / schedule.size();
  const double in_first_part = kFirstPart * static_cast<double>(effort.moves);
  const auto first_moves = static_cast<std::int64_t>(in_first_part);
  annealing.run(first_moves, kCold * mean, kCold * mean);
  if (is_worth_it()) annealing.run(effort.moves - first_moves, kHot * mean, kCold * mean);
  const std::vector<int> order =
      with_early_sinks(stages, precedence, is_worth_it() ? schedule.order() : given);
  if (order == given) return std::nullopt;
  return Unfolding(graph).ops(ops_of(stages, order));
}

std::vector<OpId> lower_memory_sequence(const Graph& graph, const remat::StageGraph& stages,
                                        std::span<const OpId> executions, Bytes limit,
                                        const OrderEffort& effort, const Control& control) {
  const Unrolled sequence = unrolled(stages, Precedence(graph, stages), executions);
  Schedule schedule(sequence.graph, sequence.precedence, limit);
  Annealing annealing(schedule, effort.seed, control);
  const double mean = static_cast<double>(schedule.excess()) / schedule.size();
  if (mean > 0) annealing.run(effort.moves, kWarm * mean, kCold * mean);
  return ops_of(sequence.graph,
                with_early_sinks(sequence.graph, sequence.precedence, schedule.order()));
}

std::optional<std::vector<OpId>> order_of(const Graph& graph, const remat::StageGraph& stages,
                                          std::span<const OpId> executions) {
  std::vector<bool> seen(graph.num_ops());
  std::vector<OpId> firsts;
  for (OpId id : executions) {
    if (!seen[id]) firsts.push_back(id);
    seen[id] = true;
  }
  if (firsts == remat::stage_order(stages)) return std::nullopt;
  return Unfolding(graph).ops(firsts);
}

}  // namespace lowtide::ordering
