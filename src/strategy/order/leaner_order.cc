#include "strategy/order/leaner_order.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "strategy/order/schedule.h"
#include "strategy/order/unrolled.h"

namespace lowtide {
namespace {

/// An order that saves less than this share of the bytes above the limit is not worth another one.
constexpr double kWorthwhile = 0.03;

/// Temperatures, times the mean bytes above the limit.
constexpr double kHot = 2;
constexpr double kWarm = 0.1;
constexpr double kCold = 2e-3;

class Annealing {
 public:
  Annealing(Schedule& schedule, std::uint64_t seed, const Control& control)
      : schedule_(schedule), random_(seed), control_(control) {}

  /// Cools from the first temperature to the last, in bytes above the limit.
  void run(std::int64_t moves, double first, double last) {
    constexpr std::int64_t kBatch = 1024;
    for (std::int64_t done = 0; done < moves && !control_.should_stop(); done += kBatch) {
      double share = static_cast<double>(done) / static_cast<double>(moves);
      if (control_.limit_seconds() > 0) {
        share = std::max(share, control_.elapsed_seconds() / control_.limit_seconds());
      }
      const double temperature = first * std::pow(last / first, share);
      for (std::int64_t i = 0; i < kBatch; ++i) move(temperature);
    }
  }

 private:
  int pick(int first, int last) {
    return first + static_cast<int>(random_() % static_cast<std::uint64_t>(last - first + 1));
  }
  double uniform() { return static_cast<double>(random_() >> 11) * 0x1p-53; }

  /// One move, taken back unless the Metropolis rule takes it.
  void move(double temperature) {
    constexpr int kNear = 4;
    constexpr int kFar = 64;
    const int from = pick(0, schedule_.size() - 1);
    const Schedule::Range range = schedule_.range_of(from);
    const int reach = random_() % 2 == 0 ? kNear : kFar;
    const int to = pick(std::max(range.first, from - reach), std::min(range.last, from + reach));
    if (to == from) return;
    const auto before = static_cast<double>(schedule_.excess());
    schedule_.move(from, to);
    const double most = before - temperature * std::log1p(-uniform());
    if (static_cast<double>(schedule_.excess()) > most) schedule_.move(to, from);
  }

  Schedule& schedule_;
  std::mt19937_64 random_;
  const Control& control_;
};

/// All ops in the order of their stages; views come right before they are first read, and what
/// nothing needs at the end.
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

std::optional<std::vector<OpId>> leaner_order(const Graph& graph, const StageGraph& stages,
                                              Bytes limit, const OrderEffort& effort,
                                              const Control& control) {
  constexpr double kFirstPart = 0.05;  // of the moves, which go downhill
  if (stages.end() < 2) return std::nullopt;
  const Precedence precedence(graph, stages);
  Schedule schedule(stages, precedence, limit);
  const auto given = static_cast<double>(schedule.excess());
  const auto is_worth_it = [&] {
    return static_cast<double>(schedule.excess()) < (1 - kWorthwhile) * given;
  };
  Annealing annealing(schedule, effort.seed, control);
  const double mean = given / schedule.size();
  const auto first_moves = static_cast<std::int64_t>(kFirstPart * static_cast<double>(effort.moves));
  annealing.run(first_moves, kCold * mean, kCold * mean);
  if (!is_worth_it()) return std::nullopt;
  annealing.run(effort.moves - first_moves, kHot * mean, kCold * mean);
  if (!is_worth_it()) return std::nullopt;
  std::vector<OpId> firsts;
  for (int stage : schedule.order()) firsts.push_back(stages.stage(stage).op);
  return Unfolding(graph).ops(firsts);
}

std::vector<OpId> leaner_sequence(const Graph& graph, const StageGraph& stages,
                                  std::span<const OpId> executions, Bytes limit,
                                  const OrderEffort& effort, const Control& control) {
  const Unrolled sequence = unrolled(stages, Precedence(graph, stages), executions);
  Schedule schedule(sequence.graph, sequence.precedence, limit);
  Annealing annealing(schedule, effort.seed, control);
  const double mean = static_cast<double>(schedule.excess()) / schedule.size();
  if (mean > 0) annealing.run(effort.moves, kWarm * mean, kCold * mean);
  std::vector<OpId> result;
  for (int stage : schedule.order()) result.push_back(sequence.graph.stage(stage).op);
  return result;
}

std::optional<std::vector<OpId>> order_of(const Graph& graph, const StageGraph& stages,
                                          std::span<const OpId> executions) {
  std::vector<bool> seen(graph.num_ops());
  std::vector<OpId> firsts;
  for (OpId id : executions) {
    if (!seen[id]) firsts.push_back(id);
    seen[id] = true;
  }
  if (firsts == stage_order(stages)) return std::nullopt;
  return Unfolding(graph).ops(firsts);
}

}  // namespace lowtide
