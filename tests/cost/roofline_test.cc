#include "cost/roofline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "cost/profile.h"
#include "models/model.h"
#include "support/random_graph.h"
#include "support/sweep.h"
#include "support/throws.h"

namespace lowtide::cost {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// Training steps of the zoo: all kinds of ops.
std::vector<Graph> steps() {
  std::vector<Graph> graphs;
  for (const models::Model& model : models::models()) {
    if (graphs.size() >= lowtide::testing::sweep<std::size_t>(1000, 5)) break;
    models::ModelOptions sizes;
    sizes.batch = 2;  // a batch norm of one value per channel is refused
    graphs.push_back(models::training_graph(model, sizes, {}));
  }
  return graphs;
}

/// Random rates, and others of which none is worse.
std::pair<DeviceRates, DeviceRates> slower_and_faster(std::mt19937& random) {
  DeviceRates slow = default_rates();
  const auto draw = [&](double low, double high) {
    return std::exp(std::uniform_real_distribution<double>(std::log(low), std::log(high))(random));
  };
  for (auto& [dtype, rate] : slow.flops_per_second) rate = draw(1e9, 1e15);
  slow.bytes_per_second = draw(1e9, 1e13);
  slow.seconds_per_op = draw(1e-7, 1e-4);
  DeviceRates fast = slow;
  for (auto& [dtype, rate] : fast.flops_per_second) rate *= draw(1, 100);
  fast.bytes_per_second *= draw(1, 100);
  fast.seconds_per_op /= draw(1, 10);
  return {slow, fast};
}

void expect_no_op_costs_more(const Graph& graph, const DeviceRates& fast, const DeviceRates& slow) {
  for (OpId id = 0; id < graph.num_ops(); ++id) {
    const double cost = roofline_microseconds(graph, id, fast);
    EXPECT_LE(cost, roofline_microseconds(graph, id, slow))
        << graph.op(id).type << ": " << fast.name << " against " << slow.name;
    EXPECT_GT(cost, 0) << graph.op(id).type;
  }
}

TEST(Roofline, AFasterDeviceIsNeverEstimatedSlower) {
  std::mt19937 random(3);
  for (const Graph& graph : steps()) {
    for (int round = 0; round < 10; ++round) {
      const auto [slow, fast] = slower_and_faster(random);
      expect_no_op_costs_more(graph, fast, slow);
    }
    expect_no_op_costs_more(graph, find_device("h200"), find_device("h100"));
    expect_no_op_costs_more(graph, find_device("h100"), find_device("a100"));
  }
}

TEST(Roofline, ArithmeticHasTheRateOfItsDtype) {
  DeviceRates rates = find_device("h100");
  rates.seconds_per_op = 0;
  const Work work{.flops = 67e12, .bytes = 0, .dtype = DType::f32};
  EXPECT_DOUBLE_EQ(roofline_microseconds(work, rates), 1e6);
  for (DType half : {DType::f16, DType::bf16}) {
    EXPECT_DOUBLE_EQ(roofline_microseconds({989.4e12, 0, half}, rates), 1e6);
  }
  EXPECT_DOUBLE_EQ(rates.flops(DType::c64), rates.flops(DType::f32));
  EXPECT_DOUBLE_EQ(rates.flops(DType::c128), rates.flops(DType::f64));
  EXPECT_DOUBLE_EQ(rates.flops(DType::i64), rates.flops(DType::f32));
}

TEST(KnownDevices, EachHasWhatEstimatesNeed) {
  for (const DeviceRates& device : known_devices()) {
    for (DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
      EXPECT_TRUE(device.flops_per_second.contains(dtype)) << device.name;
      EXPECT_GT(device.flops(dtype), 0) << device.name;
    }
    EXPECT_GT(device.bytes_per_second, 0);
    EXPECT_GT(device.seconds_per_op, 0);
    EXPECT_EQ(device.cuda_capability.has_value(), device.memory_bytes > 0) << device.name;
    EXPECT_EQ(device.cuda_capability.has_value(), !device.maker.empty()) << device.name;
    EXPECT_EQ(&find_device(device.name), &device);
  }
}

TEST(KnownDevices, AnUnknownNameListsTheKnownOnes) {
  EXPECT_THAT([] { find_device("h10"); },
              ThrowsMessage<InputError>(AllOf(HasSubstr("\"h10\""), HasSubstr("\"h100\""),
                                              HasSubstr("rtx4090"), HasSubstr("mi300x"))));
}

TEST(CostOrigin, SaysWhetherCostsAreMeasured) {
  const Graph graph = lowtide::testing::chain_graph(2);
  EXPECT_EQ(cost_origin(graph), "given with the graph");
  EXPECT_EQ(cost_origin(roofline_priced(graph)), "estimates");
  EXPECT_EQ(cost_origin(roofline_priced(graph, find_device("h100"))),
            "estimates, like NVIDIA H100 SXM 80GB");
  Profile profile;
  profile.device = "Abacus";
  EXPECT_EQ(cost_origin(priced(graph, profile)), "measured on Abacus, 4 of 4 ops estimated");
  for (OpId id = 0; id < graph.num_ops(); ++id) profile.ops[profile_key(graph, id)] = {};
  EXPECT_EQ(cost_origin(priced(graph, profile)), "measured on Abacus");
}

}  // namespace
}  // namespace lowtide::cost
