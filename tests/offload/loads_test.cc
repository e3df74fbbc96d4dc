#include "offload/loads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "graph/boundary.h"
#include "graph/validate.h"
#include "remat/stage_graph.h"
#include "support/random_moves.h"

namespace lowtide::offload {
namespace {

using testing::op;
using testing::random_graph;
using testing::resident;
using testing::some_prices;
using testing::value;
using testing::view;

TEST(Movable, LeavesOutOutputsResidentsViewsAndWhatHasNoBytes) {
  GraphData data;
  data.tensors = {resident("x", 8), value("a", 8),   view("of a", 1), value("empty", 0),
                  value("y", 8),    view("of y", 4), view("of x", 0)};
  data.ops = {op("make a", {0}, {1}),    op("view a", {1}, {2}, 0), op("make empty", {2}, {3}),
              op("make y", {1, 3}, {4}), op("view y", {4}, {5}, 0), op("view x", {0}, {6}, 0)};
  data.outputs = {5};
  const std::vector<bool> only_a{false, true, false, false, false, false, false};
  EXPECT_EQ(movable(Graph(std::move(data))), only_a);
}

TEST(Movable, LeavesOutValuesOfOpsThatNothingNeeds) {
  GraphData data;
  data.tensors = {resident("x", 8), value("a", 8), value("unneeded", 8), value("y", 8)};
  data.ops = {op("make a", {0}, {1}), op("make unneeded", {1}, {2}), op("make y", {1}, {3})};
  data.outputs = {3};
  const std::vector<bool> only_a{false, true, false, false};
  EXPECT_EQ(movable(Graph(std::move(data))), only_a);
}

TEST(Movable, LeavesOutAValueWithAViewFromTheSameOp) {
  GraphData data;
  data.tensors = {resident("x", 8), value("a", 8), view("of a", 1), value("y", 8)};
  data.ops = {op("make both", {0}, {1, 2}), op("make y", {2}, {3})};
  data.outputs = {3};
  EXPECT_EQ(movable(Graph(std::move(data))), std::vector<bool>(4));
}

TEST(Movable, LeavesOutAValueWhoseViewIsMadeOnce) {
  for (bool again : {false, true}) {
    GraphData data;
    data.tensors = {resident("x", 8), value("a", 64), view("v", 1), value("b", 64)};
    data.ops = {op("make", {0}, {1}), op("view", {1}, {2}), op("use", {2}, {3})};
    data.ops[1].recomputable = again;
    data.ops[2].recomputable = false;
    EXPECT_EQ(movable(Graph(std::move(data)))[1], again);
  }
}

TEST(Movable, LeavesOutWhatTheBoundaryReads) {
  GraphData data;
  data.tensors = {resident("x", 8), value("a", 8), value("result", 8), resident("gradient", 8),
                  value("y", 8)};
  data.ops = {op("make a", {0}, {1}), op("make result", {1}, {2}), op("caller", {2, 3}, {}),
              op("make y", {1, 3}, {4})};
  data.ops[2].type = kBoundary;
  data.ops[2].mutates = {1};
  data.ops[2].recomputable = false;
  data.outputs = {4};
  const std::vector<bool> only_a{false, true, false, false, false};
  EXPECT_EQ(movable(Graph(std::move(data))), only_a);
}

TEST(Movable, LeavesOutWhatACollectiveUsesUntilItIsWaitedFor) {
  GraphData data;
  data.tensors = {resident("x", 8), value("gradient", 8), value("pending", 8), value("mean", 8),
                  value("y", 8)};
  data.ops = {op("make gradient", {0}, {1}), op("start", {1}, {2}), op("wait", {2, 1}, {3}),
              op("make y", {3}, {4})};
  data.ops[1].type = "lowtide::exchange_start";
  data.ops[2].type = "lowtide::exchange_wait";
  data.outputs = {4};
  const std::vector<bool> only_mean{false, false, false, true, false};
  EXPECT_EQ(movable(Graph(std::move(data))), only_mean);
}

TEST(MovableProperty, OnlyNeededValuesWithBytesThatAreNoOutputs) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = random_graph(seed);
    const std::vector<bool> found = movable(graph);
    const std::vector<bool> needed = remat::needed_ops(graph);
    for (TensorId id = 0; id < graph.num_tensors(); ++id) {
      const Tensor& tensor = graph.tensor(id);
      const bool is_output = std::ranges::any_of(
          graph.outputs(), [&](TensorId out) { return graph.storage(out) == id; });
      const bool may = tensor.kind == Kind::value && tensor.alias_of == kNone &&
                       tensor.bytes > 0 && !is_output && needed[graph.producer(id)];
      EXPECT_EQ(found[id], may) << tensor.name;
    }
  }
}

TEST(WithLoads, WithoutPricesIsTheGraphItself) {
  const Graph graph = random_graph(3);
  const LoadGraph loads =
      with_loads(graph, std::vector<std::optional<double>>(graph.num_tensors()));
  EXPECT_EQ(loads.graph.num_ops(), graph.num_ops());
  EXPECT_EQ(loads.graph.num_tensors(), graph.num_tensors());
  EXPECT_EQ(loads.price_of_first, 0);
}

TEST(WithLoads, WithoutRerunsOnlyLoadsAndViewsMayRunAgain) {
  const Graph graph = random_graph(5);
  const LoadGraph loads = with_loads(graph, some_prices(graph, 5), Reruns::none);
  const std::vector<bool> needed = remat::needed_ops(graph);
  for (OpId id = 0; id < loads.graph.num_ops(); ++id) {
    const bool may = loads.loaded[id] != kNone || loads.graph.is_view_op(id) ||
                     !needed[loads.original[id]];  // it may be left out
    EXPECT_TRUE(may || !loads.graph.op(id).recomputable) << loads.graph.op(id).name;
  }
}

/// The graph with loads of some values, beside what it should be.
struct LoadsCase {
  explicit LoadsCase(std::uint64_t seed)
      : graph(random_graph(seed)),
        prices(some_prices(graph, seed)),
        loads(with_loads(graph, prices)) {}

  bool is_loaded(TensorId id) const { return prices[id].has_value(); }
  OpId producer(TensorId id) const { return loads.graph.producer(id); }

  Graph graph;
  std::vector<std::optional<double>> prices;
  LoadGraph loads;
};

void expect_same_tensors(const LoadsCase& one) {
  for (TensorId id = 0; id < one.graph.num_tensors(); ++id) {
    EXPECT_EQ(one.loads.graph.tensor(id).name, one.graph.tensor(id).name);
    EXPECT_EQ(one.loads.graph.tensor(id).bytes, one.graph.tensor(id).bytes);
    EXPECT_EQ(one.loads.graph.storage(id), one.graph.storage(id));
  }
  for (TensorId id = one.graph.num_tensors(); id < one.loads.graph.num_tensors(); ++id) {
    EXPECT_EQ(one.loads.graph.tensor(id).bytes, 0);
    EXPECT_EQ(one.loads.graph.readers(id).size(), 1u);
  }
}

void expect_one_load_of_each(const LoadsCase& one) {
  double price_of_first = 0;
  std::vector<int> loads(one.graph.num_tensors());
  for (TensorId loaded : one.loads.loaded) {
    if (loaded != kNone) ++loads[loaded];
  }
  for (TensorId id = 0; id < one.graph.num_tensors(); ++id) {
    EXPECT_EQ(loads[id], one.is_loaded(id) ? 1 : 0);
    if (!one.is_loaded(id)) continue;
    EXPECT_EQ(one.loads.loaded[one.producer(id)], id);
    EXPECT_EQ(one.loads.graph.op(one.producer(id)).cost, one.prices[id]);
    EXPECT_TRUE(one.loads.graph.op(one.producer(id)).recomputable);
    price_of_first += *one.prices[id];
  }
  EXPECT_DOUBLE_EQ(one.loads.price_of_first, price_of_first);
}

void expect_same_ops(const LoadsCase& one) {
  OpId next = 0;
  for (OpId id = 0; id < one.loads.graph.num_ops(); ++id) {
    const OpId original = one.loads.original[id];
    EXPECT_EQ(original == kNone, one.loads.loaded[id] != kNone);
    if (original == kNone) continue;
    EXPECT_EQ(original, next++);
    const Op& op = one.graph.op(original);
    const bool takes =
        std::ranges::any_of(op.outputs, [&](TensorId o) { return one.is_loaded(o); });
    EXPECT_EQ(one.loads.graph.op(id).inputs, op.inputs);
    EXPECT_EQ(one.loads.graph.op(id).cost, op.cost);
    EXPECT_EQ(one.loads.graph.op(id).recomputable, op.recomputable && !takes);
  }
  EXPECT_EQ(next, one.graph.num_ops());
}

TEST(WithLoadsProperty, KeepsTensorsAndOpsAndAddsALoadOfEachChosenValue) {
  int loaded = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    const LoadsCase one(seed);
    validate(one.loads.graph.data());
    expect_same_tensors(one);
    expect_one_load_of_each(one);
    expect_same_ops(one);
    loaded += one.loads.graph.num_tensors() - one.graph.num_tensors();
  }
  EXPECT_GT(loaded, 1000);
}

}  // namespace
}  // namespace lowtide::offload
