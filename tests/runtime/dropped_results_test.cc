#include "base/error.h"
#include "graph/boundary.h"
#include "graph/extent.h"
#include "graph/handed_out.h"
#include "runtime/autograd_executor.h"
#include "runtime/training_sample.h"

namespace lowtide::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

/// A loss and the scores that it is made from, both results, and the gradient of w.
struct Scored {
  Graph graph;
  TensorId scores, loss, gradient;
};

Scored make_scored() {
  GraphMaker m("scored");
  const TensorId x = m.resident("x", {64, 32}, kNormal, DType::f32, Role::input);
  const TensorId w = m.resident("w", {32, 512}, kNormal);
  const TensorId scores = m.op1("aten::mm", {T{x}, T{w}});
  const TensorId soft = m.op1("aten::_log_softmax", {T{scores}, std::int64_t{1}, false});
  const TensorId squared = m.op1("aten::mul.Tensor", {T{soft}, T{soft}});
  const TensorId loss = m.op1("aten::sum", {T{squared}});
  const TensorId given = m.op1("aten::clone", {T{loss}});  // becomes the boundary below
  const TensorId twice = m.op1("aten::mul.Tensor", {T{soft}, T{given}});
  const TensorId more = m.op1("aten::add.Tensor", {T{twice}, T{twice}});
  const TensorId d_scores =
      m.op1("aten::_log_softmax_backward_data", {T{more}, T{soft}, std::int64_t{1}, DType::f32});
  const TensorId turned = m.op1("aten::t", {T{x}});
  const TensorId gradient = m.op1("aten::mm", {T{turned}, T{d_scores}});
  GraphData& data = m.data();
  for (TensorId id : {scores, loss, given}) data.tensors[static_cast<std::size_t>(id)].bytes = 0;
  for (Op& op : data.ops) {
    if (op.type == "aten::clone") {
      op.type = kBoundary;
      op.inputs.push_back(scores);
    }
    const bool reads_scores = std::ranges::count(op.inputs, scores) > 0;
    const bool makes_result = op.outputs[0] == scores || op.outputs[0] == loss;
    if (reads_scores || makes_result || is_boundary(op)) op.recomputable = false;
    if (makes_result) op.inplace.clear();
  }
  return {m.build({loss, scores, gradient}), scores, loss, gradient};
}

struct ScoredStep {
  ScoredStep(const Scored& measured, const at::TensorOptions& options)
      : scored(measured),
        x(at::randn({64, 32}, options)),
        w(at::randn({32, 512}, options)),
        given(at::full({}, 0.5, options)) {}

  const Scored& scored;
  at::Tensor x, w, given;

  AutogradExecutor::Forward forward(AutogradExecutor& executor) const {
    const std::vector<at::Tensor> residents{x, w};
    const std::vector<TensorId> wanted{scored.loss, scored.scores};
    return executor.forward(residents, wanted);
  }
  at::Tensor backward(AutogradExecutor& executor) const {
    const std::vector<at::Tensor> tangents{given};
    const std::vector<TensorId> wanted{scored.gradient};
    return executor.backward(tangents, wanted)[0];
  }
  at::Tensor eager_scores() const { return at::mm(x, w); }
  at::Tensor eager_gradient() const {
    const at::Tensor soft = at::_log_softmax(eager_scores(), 1, false);
    const at::Tensor twice = at::mul(soft, given);
    return at::mm(x.t(),
                  at::_log_softmax_backward_data(at::add(twice, twice), soft, 1, at::kFloat));
  }
};

class DroppedResults : public device::OnEachDevice {
 protected:
  const Scored& measured() const { return measured_on(device(), make_scored); }
  Bytes scores_bytes() const { return element_bytes(measured().graph.tensor(measured().scores)); }
  /// Runs it like a caller that drops the scores.
  Graph dropping() const {
    return with_results_dropped(measured().graph, std::vector<TensorId>{measured().scores});
  }
  ScoredStep new_step() const { return {measured(), options()}; }
};

ON_EACH_DEVICE(DroppedResults);

TEST_P(DroppedResults, OwnTheirBytesInTheGraphAndAreNoOutputs) {
  EXPECT_THAT(droppable_results(measured().graph), ElementsAre(measured().loss, measured().scores));
  const Graph graph = dropping();
  EXPECT_EQ(graph.tensor(measured().scores).bytes, scores_bytes());
  EXPECT_THAT(graph.outputs(), ElementsAre(measured().loss, measured().gradient));
  EXPECT_EQ(foreign_bytes(measured().graph) - foreign_bytes(graph), scores_bytes());
  const std::vector<TensorId> gradient{measured().gradient};
  EXPECT_THAT([&] { with_results_dropped(measured().graph, gradient); },
              ThrowsMessage<InputError>(HasSubstr("is no result that can be dropped")));
}

TEST_P(DroppedResults, MakeRoomForTheSecondHalf) {
  const Graph graph = dropping();
  const Plan held = keep_all_plan(measured().graph);
  const Plan plan = keep_all_plan(graph);
  // Readers of the scores have finished when the second half needs the most memory.
  EXPECT_LT(plan.layout->arena_bytes, held.layout->arena_bytes + scores_bytes());
  AutogradExecutor executor(graph, plan, device());
  for (int i = 0; i < 3; ++i) {
    const ScoredStep step = new_step();
    auto forward = step.forward(executor);
    EXPECT_EQ(executor.held_bytes() + scores_bytes(), executor.block_bytes());
    EXPECT_FALSE(executor.contains(forward.results[1]));
    EXPECT_TRUE(at::equal(forward.results[1], step.eager_scores()));
    forward.results.clear();
    EXPECT_TRUE(at::equal(step.backward(executor), step.eager_gradient()));
    EXPECT_EQ(executor.held_bytes(), executor.block_bytes());
    EXPECT_THAT(executor.held_results(), IsEmpty());
    EXPECT_THAT(executor.overruns(), IsEmpty());
  }
}

TEST_P(DroppedResults, StayTheCallersWhereItHoldsThem) {
  for (const Graph& graph : {dropping(), measured().graph}) {
    const Plan plan = keep_all_plan(graph);
    AutogradExecutor executor(graph, plan, device());
    for (int i = 0; i < 3; ++i) {
      const ScoredStep step = new_step();
      const auto forward = step.forward(executor);
      EXPECT_TRUE(at::equal(step.backward(executor), step.eager_gradient()));
      EXPECT_TRUE(at::equal(forward.results[1], step.eager_scores()));
      EXPECT_THAT(executor.held_results(), ElementsAre(measured().loss, measured().scores));
    }
    const ScoredStep step = new_step();
    auto forward = step.forward(executor);
    forward.results.pop_back();
    step.backward(executor);
    EXPECT_THAT(executor.held_results(), ElementsAre(measured().loss));
  }
}

TEST_P(DroppedResults, AreDroppedWhenATicketIsFlownAgain) {
  const Graph graph = dropping();
  const Plan plan = keep_all_plan(graph);
  AutogradExecutor executor(graph, plan, device());
  const ScoredStep step = new_step();
  const auto forward = step.forward(executor);
  step.backward(executor);
  const std::vector<at::Tensor> residents{step.x, step.w}, tangents{step.given};
  const std::vector<TensorId> wanted{measured().gradient};
  for (int i = 0; i < 2; ++i) {
    const auto gradients = executor.replay(forward.ticket, residents, tangents, wanted);
    EXPECT_TRUE(at::equal(gradients[0], step.eager_gradient()));
  }
}

TEST_P(DroppedResults, HaveTheirPlaceToThemselves) {
  const Graph graph = dropping();
  Plan plan = keep_all_plan(graph);
  for (auto& born : plan.layout->placements) {
    for (Placement& placement : born) {
      if (placement.index == measured().scores) placement.offset = plan.layout->arena_bytes;
    }
  }
  AutogradExecutor executor(graph, plan, device());
  EXPECT_THAT([&] { new_step().forward(executor); },
              ThrowsMessage<InputError>(HasSubstr("the place of results")));
}

}  // namespace
}  // namespace lowtide::runtime
