#include "estimate/from_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "graph/boundary.h"
#include "models/model.h"
#include "plan/replay.h"
#include "support/random_graph.h"
#include "support/sweep.h"

namespace lowtide::testing {
namespace {

using estimate::Estimate;
using estimate::Part;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Values of the forward pass that an op after it reads, or that the step returns; found without a
/// plan. A result that nothing reads is dropped at once.
Bytes activations_by_readers(const Graph& graph) {
  OpId last = kNone;
  for (OpId id = 0; id < graph.num_ops(); ++id) {
    if (graph.op(id).phase == Phase::forward && !is_boundary(graph.op(id))) last = id;
  }
  std::set<TensorId> held;
  const auto hold = [&](TensorId tensor) {
    const TensorId storage = graph.storage(tensor);
    const OpId maker = graph.producer(storage);
    if (maker != kNone && maker <= last && graph.op(maker).phase == Phase::forward) {
      held.insert(storage);
    }
  };
  for (OpId id = last + 1; id < graph.num_ops(); ++id) {
    for (const TensorId input : graph.op(id).inputs) hold(input);
  }
  for (const TensorId output : graph.outputs()) hold(output);
  // The results of the last op are there while it runs, and those without readers go then.
  Bytes bytes = 0;
  for (const TensorId storage : held) bytes += graph.tensor(storage).bytes;
  return bytes;
}

void expect_sums(const Graph& graph) {
  const Estimate found = estimate::from_graph(graph);
  EXPECT_EQ(estimate::sum(found.at_peak), found.peak_bytes);
  EXPECT_EQ(found.peak_bytes, keep_all_reference(graph).peak_bytes + foreign_bytes(graph));
  ASSERT_TRUE(found.in_place_peak_bytes);
  EXPECT_LE(*found.in_place_peak_bytes, found.peak_bytes);
  const Bytes activations = estimate::bytes_of(found.whole, "activations");
  EXPECT_EQ(activations, activations_by_readers(graph));
  EXPECT_EQ(estimate::sum(found.by_kind), activations);
  if (!found.by_layer.empty()) {
    EXPECT_EQ(estimate::sum(found.by_layer), activations);
  }
  for (const auto* parts : {&found.whole, &found.at_peak, &found.by_kind, &found.by_layer}) {
    std::set<std::string> names;
    for (const Part& part : *parts) {
      EXPECT_GT(part.bytes, 0) << part.name;
      EXPECT_TRUE(names.insert(part.name).second) << part.name;
    }
  }
}

TEST(EstimateFromGraph, TellsAStepByHand) {
  GraphData data;
  data.name = "by hand";
  data.tensors = {resident("w", 100), value("a", 1000), value("b", 200), value("g", 100)};
  data.tensors[0].role = Role::parameter;
  data.tensors[0].dtype = DType::f32;
  data.tensors[3].role = Role::gradient;
  data.tensors[3].gradient_of = 0;
  data.ops = {op("layer1.big", {0}, {1}, 10), op("layer2.small", {1}, {2}, 4),
              op("last", {2, 1}, {3}, 6, 30)};
  data.ops[2].phase = Phase::backward;
  data.outputs = {3};
  const Estimate found = estimate::from_graph(Graph(data));
  EXPECT_EQ(found.parameters, 25);
  EXPECT_THAT(found.whole, ElementsAre(Part{"parameters", 100}, Part{"gradients", 100},
                                       Part{"activations", 1200}));
  EXPECT_THAT(found.by_layer, ElementsAre(Part{"layer1", 1000}, Part{"layer2", 200}));
  EXPECT_THAT(found.at_peak, ElementsAre(Part{"parameters", 100}, Part{"activations", 1200},
                                         Part{"gradients", 100}, Part{"workspace", 30}));
  EXPECT_EQ(found.peak_bytes, 1430);
  EXPECT_EQ(found.peak_op, "last");
  EXPECT_EQ(found.peak_phase, "backward");
}

TEST(EstimateFromGraph, OfNothingIsNothing) {
  GraphData data;
  data.name = "empty";
  const Estimate found = estimate::from_graph(Graph(data));
  EXPECT_EQ(found.peak_bytes, 0);
  EXPECT_THAT(found.whole, IsEmpty());
  EXPECT_EQ(found.peak_op, "");
}

TEST(EstimateFromGraph, PartsAddUpInRandomSteps) {
  for (std::uint64_t seed = 0; seed < sweep(2000U, 200U); ++seed) {
    SCOPED_TRACE(seed);
    expect_sums(random_step(seed, 3 + static_cast<int>(seed % 20), 3 + static_cast<int>(seed % 9)));
  }
}

TEST(EstimateFromGraph, PartsAddUpInTheZoo) {
  for (const models::Model& model : models::models()) {
    if (model.name.starts_with("gpt3") && sweep(1, 0) == 0) continue;
    SCOPED_TRACE(model.name);
    expect_sums(models::training_graph(model, {.batch = 2}, {.name = "adam"}));
  }
}

TEST(EstimateFromGraph, PartsAddUpWithMicroBatches) {
  const models::ModelOptions sizes{.batch = 4, .layers = 2, .width = 32, .heads = 2};
  expect_sums(models::training_graph(models::find_model("gpt"), sizes, {}, {}, 4));
}

}  // namespace
}  // namespace lowtide::testing
