#include <gtest/gtest.h>

#include <random>

#include "parallel/some_clusters.h"
#include "parallel/stage_plans.h"
#include "parallel/units/transformer_units.h"
#include "plan/in_place.h"
#include "plan/lower.h"
#include "plan/replay.h"
#include "support/sweep.h"

namespace lowtide::testing {
namespace {

using parallel::UnitPlan;

/// A stage that runs the forward pass of several micro-batches and then their backward passes, as
/// one graph: its oracle replays all of it.
class StageOfUnits {
 public:
  StageOfUnits(const Graph& unit, int units, int micro_batches)
      : unit_(unit), units_(units), micro_batches_(micro_batches) {
    data_.name = "stage";
    for (int i = 0; i < micro_batches * units; ++i) add_tensors(i);
    for (int i = 0; i < micro_batches * units; ++i) add_ops(i, Phase::forward);
    for (int i = 0; i < micro_batches * units; ++i) add_ops(backward_order(i), Phase::backward);
  }

  /// Beyond residents, with a plan for each unit.
  Bytes peak(const std::vector<UnitPlan>& plans) const {
    const Graph graph(data_);
    std::vector<OpId> executions;
    for (int i = 0; i < micro_batches_ * units_; ++i) execute(executions, i, plans, false);
    for (int i = 0; i < micro_batches_ * units_; ++i) {
      execute(executions, backward_order(i), plans, true);
    }
    const Plan plan = with_in_place(graph, lower(graph, executions));
    return plan.peak_bytes - graph.resident_bytes();
  }

 private:
  /// Copy i is that of unit i % units for micro-batch i / units.
  int backward_order(int i) const { return i / units_ * units_ + units_ - 1 - i % units_; }

  void add_tensors(int copy) {
    for (Tensor tensor : unit_.tensors()) {
      tensor.name = std::to_string(copy) + "." + tensor.name;
      data_.tensors.push_back(std::move(tensor));
    }
  }

  void add_ops(int copy, Phase phase) {
    for (OpId id = 0; id < unit_.num_ops(); ++id) {
      Op op = unit_.op(id);
      if (op.phase != phase) continue;
      for (TensorId& input : op.inputs) input += copy * unit_.num_tensors();
      for (TensorId& output : op.outputs) output += copy * unit_.num_tensors();
      of_[{copy, id}] = static_cast<OpId>(data_.ops.size());
      data_.ops.push_back(std::move(op));
    }
  }

  /// One of the passes of a copy: reruns are in the backward pass.
  void execute(std::vector<OpId>& executions, int copy, const std::vector<UnitPlan>& plans,
               bool backward) const {
    bool in_backward = false;
    for (OpId id : plans[copy % units_].executions) {
      in_backward = in_backward || unit_.op(id).phase == Phase::backward;
      if (in_backward == backward) executions.push_back(of_.at({copy, id}));
    }
  }

  const Graph& unit_;
  int units_, micro_batches_;
  GraphData data_;
  std::map<std::pair<int, OpId>, OpId> of_;  // by copy and op
};

class StageMemory : public ::testing::TestWithParam<std::tuple<int, bool>> {};

INSTANTIATE_TEST_SUITE_P(Splits, StageMemory,
                         ::testing::Values(std::tuple(1, false), std::tuple(2, false),
                                           std::tuple(4, true)));

/// in flight x kept bytes + working bytes is the peak of all passes replayed; with unlike plans it
/// is no less, as the unit with the largest working set may run when others are done.
TEST_P(StageMemory, IsThatOfAllItsPassesReplayed) {
  const auto [ranks, sequence] = GetParam();
  const estimate::TransformerSizes sizes{.layers = 4,
                                         .width = 256,
                                         .heads = 4,
                                         .vocabulary = 100,
                                         .sequence = 64,
                                         .batch = 2};
  const estimate::TransformerTraining training{.compute = DType::bf16, .master_copy = true};
  const parallel::Cluster cluster = a100_cluster(1, 8);
  const Graph block = parallel::block_graph(
      {sizes, training, {ranks, sequence}, cluster, cluster.kinds[0].device});
  const std::vector<UnitPlan> plans = parallel::unit_plans(block);
  std::mt19937_64 random(1);
  for (int i = 0; i < sweep(200, 30); ++i) {
    const int units = 1 + static_cast<int>(random() % 3);
    const int in_flight = 1 + static_cast<int>(random() % 3);
    const bool alike = i % 2 == 0;
    std::vector<UnitPlan> chosen(units, plans[random() % plans.size()]);
    Bytes held = 0, working = 0;
    for (UnitPlan& plan : chosen) {
      if (!alike) plan = plans[random() % plans.size()];
      held += plan.held_bytes;
      working = std::max(working, plan.working_bytes);
    }
    const Bytes peak = StageOfUnits(block, units, in_flight).peak(chosen);
    if (alike) {
      EXPECT_EQ(held * in_flight + working, peak);
    } else {
      EXPECT_GE(held * in_flight + working, peak);
      EXPECT_LE(held * (in_flight - 1), peak);
    }
  }
}

}  // namespace
}  // namespace lowtide::testing
