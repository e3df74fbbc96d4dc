#include "autodiff/gradient.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "builder/functions.h"
#include "support/interpret.h"

namespace lowtide::autodiff {
namespace {

using ::testing::HasSubstr;
using ::testing::Property;
using ::testing::ThrowsMessage;
using lowtide::testing::Interpreter;

at::Tensor f64(double value) { return at::scalar_tensor(value, at::kDouble); }

/// The numbers of scalar values of a graph.
std::vector<double> evaluate(Builder& b, const std::vector<Value>& values,
                             const std::map<TensorId, at::Tensor>& residents) {
  const auto tensors = Interpreter(b.build(values)).run(residents);
  std::vector<double> result;
  for (Value value : values) {
    result.push_back(tensors[static_cast<std::size_t>(value.id())].item().toDouble());
  }
  return result;
}

std::string_view type_of_last_op(const Builder& b) { return b.data().ops.back().type; }

// y = ln(x1) + x1 * x2 - sin(x2), the example of Griewank and Walther.
struct TextbookExample : ::testing::Test {
  Builder b{"textbook"};
  Value x1 = b.input("x1", {}, DType::f64);
  Value x2 = b.input("x2", {}, DType::f64);
  Value y = log(x1) + x1 * x2 - sin(x2);
  std::map<TensorId, at::Tensor> at_2_5 = {{x1.id(), f64(2)}, {x2.id(), f64(5)}};
};

TEST_F(TextbookExample, HasItsGradient) {
  const auto g = gradient(y, std::vector{x1, x2});
  const auto numbers = evaluate(b, {y, g[0], g[1]}, at_2_5);
  EXPECT_DOUBLE_EQ(numbers[0], std::log(2) + 10 - std::sin(5));
  EXPECT_DOUBLE_EQ(numbers[1], 5.5);
  EXPECT_DOUBLE_EQ(numbers[2], 2 - std::cos(5));
  EXPECT_NEAR(numbers[2], 1.716, 5e-4);
}

TEST_F(TextbookExample, HasItsHessian) {
  const std::vector x = {x1, x2};
  const auto g = gradient(y, x);
  const auto row1 = gradient(g[0], x);
  const auto row2 = gradient(g[1], x);
  const auto numbers = evaluate(b, {row1[0], row1[1], row2[0], row2[1]}, at_2_5);
  EXPECT_DOUBLE_EQ(numbers[0], -1.0 / 4);
  EXPECT_DOUBLE_EQ(numbers[1], 1);
  EXPECT_DOUBLE_EQ(numbers[2], 1);
  EXPECT_DOUBLE_EQ(numbers[3], std::sin(5));
}

TEST_F(TextbookExample, HasThirdDerivatives) {
  const auto first = gradient(y, std::vector{x1, x2});
  const auto second1 = gradient(first[0], std::vector{x1});
  const auto second2 = gradient(first[1], std::vector{x2});
  const auto third1 = gradient(second1[0], std::vector{x1});
  const auto third2 = gradient(second2[0], std::vector{x2});
  const auto numbers = evaluate(b, {third1[0], third2[0]}, at_2_5);
  EXPECT_DOUBLE_EQ(numbers[0], 2.0 / 8);
  EXPECT_DOUBLE_EQ(numbers[1], std::cos(5));
}

TEST(Gradient, AddsTheAdjointsOfSharedUses) {
  Builder b("shared");
  const Value x = b.input("x", {}, DType::f64);
  const Value u = x * x;
  const auto g = gradient(u * x + u, std::vector{x, u});
  const auto numbers = evaluate(b, g, {{x.id(), f64(3)}});
  EXPECT_DOUBLE_EQ(numbers[0], 3 * 9 + 2 * 3);
  EXPECT_DOUBLE_EQ(numbers[1], 3 + 1);
}

TEST(Gradient, TakesSeedsAndSeveralOutputs) {
  Builder b("seeds");
  const Value x = b.input("x", {}, DType::f64), s = b.input("s", {}, DType::f64);
  const auto g = gradient(std::vector{x * x, sin(x), x * x}, std::vector{x}, std::vector{s, s, s});
  EXPECT_DOUBLE_EQ(evaluate(b, g, {{x.id(), f64(3)}, {s.id(), f64(2)}})[0],
                   2 * (6 + std::cos(3) + 6));
}

TEST(Gradient, IsZeroWhereNothingDepends) {
  Builder b("unused");
  const Value x = b.input("x", {}, DType::f64), unused = b.input("unused", {2, 3}, DType::f64);
  const auto g = gradient(exp(x), std::vector{unused, x});
  EXPECT_EQ(g[0].shape(), (Shape{2, 3}));
  EXPECT_EQ(g[0].dtype(), DType::f64);
  const auto tensors = Interpreter(b.build(g)).run(
      {{x.id(), f64(3)}, {unused.id(), at::ones({2, 3}, at::kDouble)}});
  EXPECT_TRUE(at::equal(tensors[static_cast<std::size_t>(g[0].id())],
                        at::zeros({2, 3}, at::kDouble)));
}

TEST(Gradient, AllowsRepeatedInputsAndOutputsThatAreInputs) {
  Builder b("same");
  const Value x = b.input("x", {}, DType::f64);
  const Value y = exp(x);
  const auto g = gradient(std::vector{y, x}, std::vector{x, y, x});
  const auto numbers = evaluate(b, g, {{x.id(), f64(2)}});
  EXPECT_DOUBLE_EQ(numbers[0], std::exp(2) + 1);
  EXPECT_DOUBLE_EQ(numbers[1], 1);
  EXPECT_DOUBLE_EQ(numbers[2], std::exp(2) + 1);
}

TEST(Gradient, StopsAtValuesThatAreNotFloating) {
  Builder b("integers");
  const Value x = b.input("x", {}, DType::f64);
  const Value whole = to(x, DType::i64);
  const auto g = gradient(x * to(whole, DType::f64), std::vector{x});
  EXPECT_DOUBLE_EQ(evaluate(b, g, {{x.id(), f64(2.5)}})[0], 2);
}

TEST(Gradient, ConvertsBackWhereTypesWereMixed) {
  Builder b("mixed");
  const Value x = b.input("x", {2}, DType::f32), w = b.input("w", {2}, DType::f64);
  const auto g = gradient(sum(x * w), std::vector{x, w});
  EXPECT_EQ(g[0].dtype(), DType::f32);
  EXPECT_EQ(g[1].dtype(), DType::f64);
}

TEST(Gradient, AppendsToTheBackwardPhaseAndLeavesTheBuildersAsItWas) {
  Builder b("phase");
  b.set_phase(Phase::optimizer);
  const Value x = b.input("x", {});
  const Value y = exp(x);
  const std::size_t before = b.data().ops.size();
  gradient(y, std::vector{x});
  EXPECT_EQ(b.phase(), Phase::optimizer);
  ASSERT_GT(b.data().ops.size(), before);
  for (std::size_t i = before; i < b.data().ops.size(); ++i) {
    EXPECT_EQ(b.data().ops[i].phase, Phase::backward);
  }
}

int count_ops(const Builder& b, std::string_view type) {
  int count = 0;
  for (const Op& op : b.data().ops) count += op.type == type;
  return count;
}

TEST(Gradient, ComputesOnlyWhatIsWanted) {
  Builder b("first layer");
  const Value x = b.input("x", {2, 3, 5, 5});
  const Value w = b.parameter("w", {4, 3, 3, 3}, init::zeros());
  gradient(sum(conv2d(x, w)), std::vector{w});
  const Op& backward = b.data().ops.back();
  ASSERT_EQ(backward.type, "aten::convolution_backward");
  EXPECT_EQ(backward.args.back(), Argument(std::vector<std::int64_t>{0, 1, 0}));
  EXPECT_EQ(backward.outputs.size(), 1u);
}

TEST(Gradient, AppendsNothingBesidesForConstants) {
  Builder b("constants");
  const Value x = b.input("x", {3}), c = b.input("c", {3});
  gradient(sum(x * exp(c)), std::vector{x});
  EXPECT_EQ(count_ops(b, "aten::mul.Tensor"), 2);  // forward, and the adjoint of x
}

TEST(Gradient, SavesWhatPyTorchSaves) {
  Builder b("saved");
  const Value x = b.input("x", {3});
  const Value y = relu(x);
  gradient(std::vector{y}, std::vector{x}, std::vector{b.input("seed", {3})});
  ASSERT_EQ(type_of_last_op(b), "aten::threshold_backward");
  EXPECT_EQ(b.data().ops.back().inputs.at(1), y.id());
}

TEST(Gradient, FinishesEachParameterAsEarlyAsItCan) {
  Builder b("chain");
  Value x = b.input("x", {2, 3});
  std::vector<Value> weights;
  for (int layer = 0; layer < 3; ++layer) {
    weights.push_back(b.parameter("w" + std::to_string(layer), {3, 3}, init::zeros()));
    x = tanh(linear(x, weights.back()));
  }
  const auto g = gradient(sum(x), weights);
  EXPECT_LT(g[2].id(), g[1].id());
  EXPECT_LT(g[1].id(), g[0].id());
}

TEST(Gradient, GivesATransposedWeightItsGradientWithoutACopy) {
  Builder b("linear");
  const Value x = b.input("x", {2, 3}), w = b.parameter("w", {4, 3}, init::zeros());
  const auto g = gradient(sum(linear(x, w)), std::vector{w});
  EXPECT_TRUE(g[0].type().contiguous());
  EXPECT_EQ(count_ops(b, "aten::clone"), 0);
}

TEST(Gradient, NamesTheOpThatHasNoRule) {
  Builder b("no rule");
  const Value x = b.input("x", {4, 3}), i = b.input("i", {2}, DType::i64);
  const Value y = b.call1("aten::index_select", {x, 0, i});
  EXPECT_THAT([&] { gradient(sum(y), std::vector{x}); },
              ThrowsMessage<InputError>(HasSubstr("aten::index_select (op index_select)")));
}

TEST(Gradient, NeedsARuleOnlyOnTheWay) {
  Builder b("beside");
  const Value x = b.input("x", {4, 3}), i = b.input("i", {2}, DType::i64);
  const Value y = b.call1("aten::index_select", {x, 0, i});
  const Value w = b.input("w", {3});
  EXPECT_NO_THROW(gradient(sum(y * w), std::vector{w}));
}

TEST(Gradient, RefusesWhatHasNone) {
  Builder b("refused"), other("other");
  const Value x = b.input("x", {3}), i = b.input("i", {3}, DType::i64);
  const Value y = exp(x);
  EXPECT_THAT([&] { gradient(y, std::vector{x}); },
              ThrowsMessage<InputError>(HasSubstr("output exp is no scalar")));
  EXPECT_THAT([&] { gradient(sum(y), std::vector{i}); },
              ThrowsMessage<InputError>(HasSubstr("input i is of type i64")));
  EXPECT_THAT([&] { gradient(std::vector{y}, std::vector{x}, std::vector{sum(x)}); },
              ThrowsMessage<InputError>(HasSubstr("the seed of exp differs")));
  EXPECT_THAT([&] { gradient(std::vector{y}, std::vector{x}, std::vector{x, x}); },
              ThrowsMessage<InputError>(HasSubstr("2 seeds for 1 outputs")));
  EXPECT_THAT([&] { gradient(sum(y), std::vector{other.input("x", {})}); },
              ThrowsMessage<InputError>(HasSubstr("belongs to another builder")));
  EXPECT_THAT([&] { gradient(sum(y), std::vector{Value()}); },
              ThrowsMessage<InputError>(HasSubstr("empty")));
}

/// w -= 1, in place.
void decrement(Builder& b, Value w) {
  b.call("aten::add_.Scalar", {w, -1.0});
}

TEST(Gradient, RefusesValuesThatWereOverwritten) {
  Builder b("stale");
  const Value w = b.parameter("w", {}, init::zeros());
  const Value y = sin(w);
  decrement(b, w);
  EXPECT_THAT([&] { gradient(y, std::vector{w}); },
              ThrowsMessage<InputError>(HasSubstr("overwrites after it")));
}

TEST(Gradient, RefusesToGoThroughAWriteInPlace) {
  Builder b("in place");
  const Value w = b.parameter("w", {}, init::zeros());
  const Value before = exp(w);
  decrement(b, w);
  EXPECT_THAT([&] { gradient(before + exp(w), std::vector{w}); },
              ThrowsMessage<InputError>(HasSubstr("overwrites w")));
}

TEST(Gradient, AllowsWritesThatItDoesNotNeed) {
  Builder b("shared statistics");
  const Value x = b.input("x", {4, 3});
  const Value one = b.input("one", {3}), zero = b.input("zero", {3});
  const Value mean = b.buffer("mean", {3}, init::zeros());
  const Value variance = b.buffer("variance", {3}, init::ones());
  Value y = batch_norm(x, one, zero, mean, variance);
  y = batch_norm(y, one, zero, mean, variance);
  EXPECT_NO_THROW(gradient(sum(y), std::vector{x, one, zero}));
}

TEST(Gradient, NamesAreSortedAndEachHasOneRule) {
  const auto names = differentiable_ops();
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
  EXPECT_GT(names.size(), 80u);
}

}  // namespace
}  // namespace lowtide::autodiff
