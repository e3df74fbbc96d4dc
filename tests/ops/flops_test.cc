#include <gtest/gtest.h>

#include "examples.h"

namespace lowtide::ops {
namespace {

/// Counted operations; the number of output elements if the op has no count.
double flops_of(const Builder& b, const Op& op) {
  std::vector<TensorType> inputs;
  for (TensorId id : op.inputs) inputs.push_back(b.type(id));
  const OpDef& def = *find_op(op.type);
  const OpCall call(def.type, op.args, inputs);
  const std::vector<OutputType> outputs = def.infer(call);
  if (def.flops != nullptr) return def.flops(call, outputs);
  return static_cast<double>(outputs.front().type.elements());
}

double flops_of_last(const Builder& b) { return flops_of(b, b.data().ops.back()); }

class Flops : public ::testing::Test {
 protected:
  Value in(Shape shape) { return testing::operand(b, std::move(shape)); }
  Builder b{"flops"};
};

TEST_F(Flops, OfProductsAreTwoPerTerm) {
  mm(in({3, 4}), in({4, 5}));
  EXPECT_EQ(flops_of_last(b), 2 * 3 * 4 * 5);
  bmm(in({2, 3, 4}), in({2, 4, 5}));
  EXPECT_EQ(flops_of_last(b), 2 * 2 * 3 * 4 * 5);
  linear(in({3, 4}), in({5, 4}), in({5}));
  EXPECT_EQ(flops_of_last(b), 2 * 3 * 4 * 5);
}

TEST_F(Flops, OfConvolutionsCountEachWeightAtEachPlace) {
  const Value x = in({2, 4, 8, 8}), w = in({6, 2, 3, 3});
  const Value y = conv2d(x, w, {}, {.padding = {1, 1}, .groups = 2});
  const double once = 2.0 * (2 * 8 * 8) * (6 * 2 * 3 * 3);
  EXPECT_EQ(flops_of_last(b), once);
  const std::vector<std::int64_t> one = {1, 1}, none = {0, 0}, both = {1, 1, 1};
  b.call("aten::convolution_backward",
         {y, x, w, std::vector<std::int64_t>{6}, one, one, one, false, none, 2, both});
  EXPECT_EQ(flops_of_last(b), 2 * once);
  conv_transpose2d(x, in({4, 3, 2, 2}), {}, {.stride = {2, 2}});
  EXPECT_EQ(flops_of_last(b), 2.0 * (2 * 8 * 8) * (4 * 3 * 2 * 2));
}

TEST_F(Flops, OfTheRestFollowTheElements) {
  const Value x = in({2, 3, 4});
  exp(x);
  EXPECT_EQ(flops_of_last(b), 24);
  sum(x, {1});
  EXPECT_EQ(flops_of_last(b), 24);
  transpose(x, 0, 1);
  EXPECT_EQ(flops_of_last(b), 0);
}

TEST_F(Flops, AreNeitherNegativeNorEndlessForAnyExample) {
  for (const auto family : testing::families()) {
    Builder builder("examples");
    family({builder});
    for (const Op& op : builder.data().ops) {
      const double flops = flops_of(builder, op);
      EXPECT_TRUE(flops >= 0 && flops < 1e9) << op.type << " " << flops;
    }
  }
}

}  // namespace
}  // namespace lowtide::ops
