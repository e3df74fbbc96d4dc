#include "largest/interpolation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <vector>

#include "cost/roofline.h"
#include "models/model.h"
#include "support/random_graph.h"

namespace lowtide::largest {
namespace {

using testing::chain_graph;

constexpr int kLayers = 6;

/// A chain with activations of so many bytes, and ops that cost and work in what the functions say
/// of an op and these bytes.
Graph chain(
    Bytes bytes, const std::function<double(OpId, double)>& cost,
    const std::function<Bytes(OpId, Bytes)>& workspace = [](OpId, Bytes) { return 0; }) {
  GraphData data = chain_graph(kLayers, bytes).data();
  data.cost_unit = "us";
  data.device = "a device";
  for (std::size_t i = 0; i < data.ops.size(); ++i) {
    const auto id = static_cast<OpId>(i);
    data.ops[i].cost_estimated = false;
    data.ops[i].cost = cost(id, static_cast<double>(bytes));
    data.ops[i].workspace_bytes = workspace(id, bytes);
  }
  return Graph(std::move(data));
}

Graph bare(Bytes bytes) { return chain_graph(kLayers, bytes); }

double line(OpId op, double bytes) { return 3.0 * op + (1 + op) * 1e-3 * bytes; }

TEST(InterpolationTest, LinesAreExactWithinAndBeyondTheSizesMeasured) {
  const std::vector<Graph> measured{chain(8192, line), chain(1024, line), chain(4096, line)};
  for (const Bytes bytes : {256, 1024, 1100, 3000, 4096, 6000, 8192, 100000}) {
    const Graph guess = interpolated(bare(bytes), measured);
    const Graph truth = chain(bytes, line);
    for (OpId id = 0; id < truth.num_ops(); ++id) {
      EXPECT_NEAR(guess.op(id).cost, truth.op(id).cost, 1e-6 * truth.op(id).cost + 1e-9);
      EXPECT_TRUE(guess.op(id).cost_estimated);
    }
    EXPECT_NEAR(interpolation_error(guess, truth).step, 0, 1e-6);
    EXPECT_NEAR(interpolation_error(guess, truth).median_op, 0, 1e-6);
  }
}

TEST(InterpolationTest, TimesNeverFallAndStayBetweenConstantAndProportional) {
  std::mt19937_64 draw(3);
  std::uniform_real_distribution<double> any(0, 100);
  for (int round = 0; round < 200; ++round) {
    const auto noise = [&](OpId, double) { return any(draw); };
    const std::vector<Graph> measured{chain(1024, noise), chain(2048, noise), chain(8192, noise)};
    std::vector<double> before(static_cast<std::size_t>(bare(1).num_ops()), 0.0);
    for (const Bytes bytes : {16, 512, 1024, 1500, 2048, 5000, 8192, 9000, 1 << 20}) {
      const Graph guess = interpolated(bare(bytes), measured);
      for (OpId id = 0; id < guess.num_ops(); ++id) {
        const double cost = guess.op(id).cost;
        EXPECT_GE(cost, before[static_cast<std::size_t>(id)] - 1e-9);
        before[static_cast<std::size_t>(id)] = cost;
        const double last = measured[2].op(id).cost;
        if (bytes >= 8192) {
          EXPECT_GE(cost, last - 1e-9);
          EXPECT_LE(cost, last * (static_cast<double>(bytes) / 8192) * (1 + 1e-6) + 1e-9);
        } else {
          EXPECT_LE(cost, last + 1e-9);
        }
      }
    }
  }
}

TEST(InterpolationTest, OneSizeGivesProportionalTimes) {
  const std::vector<Graph> measured{chain(1000, line)};
  const Graph guess = interpolated(bare(3000), measured);
  for (OpId id = 0; id < guess.num_ops(); ++id) {
    EXPECT_NEAR(guess.op(id).cost, 3 * measured[0].op(id).cost, 1e-6 * guess.op(id).cost);
  }
}

TEST(InterpolationTest, ATimeThatIsTooLongForItsWorkIsLowered) {
  const std::vector<Graph> measured{chain(1024, [](OpId, double) { return 90.0; }),
                                    chain(2048, [](OpId, double) { return 40.0; })};
  EXPECT_NEAR(interpolated(bare(1024), measured).op(2).cost, 40, 1e-9);
  EXPECT_NEAR(interpolated(bare(1500), measured).op(2).cost, 40, 1e-9);
}

TEST(InterpolationTest, WorkspacesAreOnTheUpperSide) {
  const auto workspace = [](OpId op, Bytes bytes) { return op % 2 == 0 ? 640 : 10 + 3 * bytes; };
  const std::vector<Graph> measured{chain(1024, line, workspace), chain(4096, line, workspace)};
  for (const Bytes bytes : {1024, 2000, 4096, 7777, 50000}) {
    const Graph guess = interpolated(bare(bytes), measured);
    for (OpId id = 0; id < guess.num_ops(); ++id) {
      const Bytes truth = workspace(id, bytes);
      EXPECT_GE(guess.op(id).workspace_bytes, truth);
      EXPECT_LT(guess.op(id).workspace_bytes, truth + guess.alignment() + 2);
      EXPECT_TRUE(guess.op(id).allocations.empty());
    }
  }
}

TEST(InterpolationTest, AWorkspaceIsAtLeastThatOfFewerBytes) {
  const auto workspace = [](OpId, Bytes bytes) { return bytes < 2000 ? Bytes{6400} : Bytes{64}; };
  const std::vector<Graph> measured{chain(1024, line, workspace), chain(4096, line, workspace)};
  EXPECT_EQ(interpolated(bare(4096), measured).op(1).workspace_bytes, 6400);
}

TEST(InterpolationTest, OpsThatWereNotMeasuredKeepTheirEstimates) {
  GraphData data = chain(1024, line).data();
  data.ops[3].cost_estimated = true;
  const std::vector<Graph> measured{Graph(std::move(data))};
  EXPECT_EQ(interpolated(bare(2048), measured).op(3).cost, bare(2048).op(3).cost);
}

TEST(InterpolationTest, AnOpThatWasMeasuredAtOneMoreSizeHasLinesThroughItsOwn) {
  const auto bent = [](OpId, double bytes) { return bytes <= 2048 ? 10.0 : 10 + bytes - 2048; };
  GraphData largest = chain(4096, bent).data();
  for (std::size_t i = 0; i < largest.ops.size(); ++i) largest.ops[i].cost_estimated = i != 2;
  const std::vector<Graph> measured{chain(1024, bent), chain(2048, bent),
                                    Graph(std::move(largest))};
  const Graph guess = interpolated(bare(3072), measured);
  EXPECT_NEAR(guess.op(2).cost, bent(2, 3072), 1e-6);
  EXPECT_NEAR(guess.op(3).cost, 10, 1e-6);
}

TEST(InterpolationTest, OtherOpsAreRefused) {
  const std::vector<Graph> measured{chain(1024, line)};
  EXPECT_THROW(interpolated(chain_graph(kLayers + 1), measured), std::logic_error);
  EXPECT_THROW(interpolated(bare(1024), {}), std::logic_error);
}

TEST(InterpolationTest, TheErrorIsThatOfTheStepAndOfHalfItsTime) {
  const Graph truth = chain(1024, [](OpId id, double) { return id < 2 ? 1.0 : 100.0; });
  const Graph guess = chain(1024, [](OpId id, double) { return id < 2 ? 50.0 : 103.0; });
  const InterpolationError error = interpolation_error(guess, truth);
  const double ops = truth.num_ops();
  EXPECT_NEAR(error.step, (2 * 49 + (ops - 2) * 3) / (2 + (ops - 2) * 100), 1e-9);
  EXPECT_NEAR(error.median_op, 0.03, 1e-9);
  EXPECT_EQ(error.peak, 0);
}

/// As if a device of this data sheet had been measured: its times are no lines in the work that is
/// counted for another device.
Graph as_measured(const models::Model& model, const models::ModelOptions& sizes,
                  const char* device) {
  GraphData data =
      cost::roofline_priced(models::training_graph(model, sizes, {}), cost::find_device(device))
          .data();
  for (Op& op : data.ops) op.cost_estimated = false;
  return Graph(std::move(data));
}

TEST(InterpolationTest, StepsOfTheZooOnAnotherDevice) {
  for (const char* device : {"h100", "a100"}) {
    for (const char* name :
         {"resnet50", "mobilenetv2", "unet", "densenet121", "gpt", "vit-small"}) {
      const models::Model& model = models::find_model(name);
      const auto of_batch = [&](std::int64_t batch) {
        models::ModelOptions sizes;
        sizes.batch = batch;
        return as_measured(model, sizes, device);
      };
      const std::vector<Graph> measured{of_batch(8), of_batch(16)};
      for (const std::int64_t batch : {12, 32}) {
        const Graph truth = of_batch(batch);
        const InterpolationError error = interpolation_error(interpolated(truth, measured), truth);
        EXPECT_LT(std::abs(error.step), 0.1) << name << " " << batch << " on " << device;
        EXPECT_LT(error.median_op, 0.1) << name << " " << batch << " on " << device;
      }
    }
  }
}

TEST(InterpolationTest, LengthsOfATransformer) {
  const models::Model& model = models::find_model("gpt");
  const auto of_length = [&](std::int64_t length) {
    models::ModelOptions sizes;
    sizes.batch = 1;
    sizes.sequence = length;
    return as_measured(model, sizes, "h100");
  };
  const std::vector<Graph> measured{of_length(512), of_length(1024)};
  for (const std::int64_t length : {768, 2048}) {
    const Graph truth = of_length(length);
    EXPECT_LT(std::abs(interpolation_error(interpolated(truth, measured), truth).step), 0.1)
        << length;
  }
}

}  // namespace
}  // namespace lowtide::largest
