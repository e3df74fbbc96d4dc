#include "runtime/kernel.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "runtime/schema_value.h"

namespace lowtide::runtime {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using Integers = std::vector<std::int64_t>;

/// An op whose first `tensors` arguments are tensors, the rest as given.
Op make_op(std::string type, int tensors, std::vector<Argument> rest = {}) {
  Op op;
  op.name = "probe";
  op.type = std::move(type);
  for (int i = 0; i < tensors; ++i) {
    op.inputs.push_back(i);
    op.args.emplace_back(TensorArg{i});
  }
  op.args.insert(op.args.end(), rest.begin(), rest.end());
  return op;
}

at::Tensor range(at::IntArrayRef shape) {
  return at::arange(1, 1 + c10::multiply_integers(shape), at::kFloat).view(shape);
}

at::Tensor run1(const Op& op, std::vector<at::Tensor> inputs) {
  return Kernel(op).run(inputs).at(0);
}

TEST(Kernel, ScalarTakesIntegersRealsAndBooleans) {
  const at::Tensor x = range({3});
  EXPECT_TRUE(at::equal(run1(make_op("aten::add.Scalar", 1, {std::int64_t{2}}), {x}), x + 2));
  EXPECT_TRUE(at::equal(run1(make_op("aten::add.Scalar", 1, {0.5}), {x}), x + 0.5));
  EXPECT_TRUE(at::equal(run1(make_op("aten::add.Scalar", 1, {true}), {x}), x + 1));
}

TEST(Kernel, ScalarsAndNumbersForTensorsMayBeComplex) {
  const at::Tensor x = range({3});
  const std::complex<double> number(0.5, 2);
  const at::Tensor expected = x * c10::complex<double>(0.5, 2);
  EXPECT_TRUE(at::equal(run1(make_op("aten::mul.Scalar", 1, {number}), {x}), expected));
  EXPECT_TRUE(at::equal(run1(make_op("aten::mul.Tensor", 1, {number}), {x}), expected));
}

TEST(Kernel, FloatTakesAnInteger) {
  const at::Tensor x = range({2, 4});
  const auto results = Kernel(make_op("aten::native_layer_norm", 1,
                                      {Integers{4}, NoneArg(), NoneArg(), std::int64_t{1}}))
                           .run(std::vector{x});
  ASSERT_EQ(results.size(), 3U);
  EXPECT_TRUE(at::equal(results[0], at::layer_norm(x, {4}, {}, {}, 1.0)));
}

TEST(Kernel, ListTakesOneNumberForAFixedLength) {
  const at::Tensor x = range({1, 1, 4, 4});
  const Op op = make_op("aten::avg_pool2d", 1, {std::int64_t{2}});
  EXPECT_TRUE(at::equal(run1(op, {x}), at::avg_pool2d(x, 2)));
}

TEST(Kernel, MissingArgumentsTakeTheSchemasDefaults) {
  const at::Tensor x = range({2, 3});
  EXPECT_TRUE(at::equal(run1(make_op("aten::transpose.int", 1, {std::int64_t{0}, std::int64_t{1}}),
                             {x}),
                        x.t()));
  EXPECT_TRUE(at::equal(run1(make_op("aten::sum.dim_IntList", 1, {Integers{1}}), {x}), x.sum(1)));
}

TEST(Kernel, FactoriesTakeDtypesAndNoneForLayoutDeviceAndPinning) {
  const Op op = make_op("aten::full", 0,
                        {Integers{2, 2}, std::int64_t{7}, DType::i32, NoneArg(), NoneArg(),
                         NoneArg()});
  EXPECT_TRUE(at::equal(run1(op, {}), at::full({2, 2}, 7, at::kInt)));
}

TEST(Kernel, RandomOpsTakeNoneForTheGenerator) {
  const at::Tensor x = at::zeros({100});
  at::manual_seed(3);
  const at::Tensor expected = at::bernoulli(x, 0.3);
  at::manual_seed(3);
  EXPECT_TRUE(at::equal(run1(make_op("aten::bernoulli.p", 1, {0.3, NoneArg()}), {x}), expected));
}

TEST(Kernel, NoneIsAnUndefinedTensorWhereTheSchemaWantsOne) {
  const auto schema = c10::Dispatcher::singleton().findSchemaOrThrow(
      "aten::_scaled_dot_product_efficient_attention_backward", "").schema();
  const auto bias = std::ranges::find(schema.arguments(), "attn_bias", &c10::Argument::name);
  ASSERT_FALSE(takes_none(*bias));
  const c10::IValue value = schema_value(NoneArg(), *bias);
  ASSERT_TRUE(value.isTensor());
  EXPECT_FALSE(value.toTensor().defined());
}

TEST(Kernel, TextArguments) {
  const at::Tensor x = range({5});
  EXPECT_TRUE(
      at::equal(run1(make_op("aten::gelu", 1, {std::string("tanh")}), {x}), at::gelu(x, "tanh")));
}

TEST(Kernel, TensorListsWithAndWithoutHoles) {
  const at::Tensor a = range({2, 3});
  const at::Tensor b = at::tensor({1, 0}, at::kLong);
  Op cat = make_op("aten::cat", 0, {TensorListArg{{0, 0}}, std::int64_t{1}});
  cat.inputs = {0};
  EXPECT_TRUE(at::equal(run1(cat, {a}), at::cat({a, a}, 1)));
  Op index = make_op("aten::index.Tensor", 1, {TensorListArg{{kNone, 1}}});
  index.inputs = {0, 1};
  EXPECT_TRUE(at::equal(run1(index, {a, b}), a.index_select(1, b)));
}

TEST(Kernel, ListsOfResultsAreFlattened) {
  const auto parts = Kernel(make_op("aten::split.Tensor", 1, {std::int64_t{2}, std::int64_t{0}}))
                         .run(std::vector{range({5, 2})});
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(parts[2].size(0), 1);
}

TEST(Kernel, MasksOfBooleansAsIntegersAndUndefinedResultsLeftOut) {
  const at::Tensor x = range({1, 2, 4, 4});
  const at::Tensor w = range({3, 2, 3, 3});
  const at::Tensor g = range({1, 3, 2, 2});
  const Op op = make_op("aten::convolution_backward", 3,
                        {NoneArg(), Integers{1, 1}, Integers{0, 0}, Integers{1, 1}, false,
                         Integers{0, 0}, std::int64_t{1}, Integers{0, 1, 0}});
  const auto results = Kernel(op).run(std::vector{g, x, w});
  ASSERT_EQ(results.size(), 1U);
  EXPECT_EQ(results[0].sizes(), w.sizes());
}

TEST(Kernel, WritesInPlaceAndLeavesOutTheMutatedInput) {
  Op op = make_op("aten::add_.Tensor", 2);
  op.mutates = {0};
  at::Tensor x = range({4});
  EXPECT_TRUE(Kernel(op).run(std::vector{x, at::ones({4})}).empty());
  EXPECT_TRUE(at::equal(x, range({4}) + 1));
  EXPECT_FALSE(Kernel(op).can_withhold_mutated());
}

TEST(Kernel, WithholdsMutatedStatistics) {
  Op op = make_op("aten::native_batch_norm", 5, {true, 0.1, 1e-5});
  op.mutates = {3, 4};
  const Kernel kernel(op);
  ASSERT_TRUE(kernel.can_withhold_mutated());
  const at::Tensor x = range({2, 3, 2, 2});
  const at::Tensor mean = at::zeros({3});
  const at::Tensor variance = at::ones({3});
  const std::vector inputs{x, at::ones({3}), at::zeros({3}), mean, variance};
  const auto first = kernel.run(inputs);
  const at::Tensor once = mean.clone();
  const auto second = kernel.run(inputs, true);
  ASSERT_EQ(first.size(), 3U);
  EXPECT_FALSE(at::equal(once, at::zeros({3})));
  EXPECT_TRUE(at::equal(mean, once));
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(at::equal(first[i], second.at(i)));
}

TEST(Kernel, NumbersForTensorsTakeNoPartInPromotion) {
  const at::Tensor half = at::ones({3}, at::kHalf);
  EXPECT_EQ(run1(make_op("aten::mul.Tensor", 1, {0.5}), {half}).scalar_type(), at::kHalf);
  Op subtract = make_op("aten::sub.Tensor", 1);
  subtract.args = {std::int64_t{1}, TensorArg{0}};
  EXPECT_TRUE(at::equal(run1(subtract, {range({3})}), at::sub(at::ones({3}), range({3}))));
  const at::Tensor whole = at::ones({3}, at::kInt);
  EXPECT_EQ(run1(make_op("aten::mul.Tensor", 1, {true}), {whole}).scalar_type(), at::kInt);
}

TEST(Kernel, RecordsNothingForAutograd) {
  at::Tensor x = range({3});
  x.set_requires_grad(true);
  const at::Tensor y = run1(make_op("aten::mul.Tensor", 2), {x, x});
  EXPECT_FALSE(y.requires_grad());
  EXPECT_FALSE(y.is_inference());
}

TEST(Kernel, RefusesWhatLibTorchDoesNotHave) {
  EXPECT_THAT([] { Kernel(make_op("aten::ad.Tensor", 2)); },
              ThrowsMessage<InputError>(HasSubstr("no op aten::ad.Tensor")));
}

TEST(Kernel, RefusesArgumentsThatDoNotFitTheSchema) {
  const auto refuses = [](Op op, const std::string& part) {
    EXPECT_THAT([&] { Kernel{op}; },
                ThrowsMessage<InputError>(AllOf(HasSubstr("probe"), HasSubstr(part))));
  };
  refuses(make_op("aten::relu", 0, {std::string("a")}), "\"self\" wants Tensor");
  refuses(make_op("aten::relu", 2), "2 arguments");
  refuses(make_op("aten::transpose.int", 1, {std::string("a"), std::int64_t{1}}), "dim0");
  refuses(make_op("aten::add.Scalar", 1, {Integers{1}}), "other");
  Op dangling = make_op("aten::relu", 1);
  dangling.args[0] = TensorArg{4};
  refuses(dangling, "no input 4");
}

TEST(Kernel, FailuresNameTheOpAndNothingInternal) {
  const Kernel kernel(make_op("aten::mm", 2));
  const std::vector inputs{range({2, 3}), range({2, 3})};
  try {
    kernel.run(inputs);
    FAIL() << "shapes that do not fit must be refused";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("probe"), HasSubstr("aten::mm")));
    EXPECT_THAT(error.what(), ::testing::Not(HasSubstr("frame #")));
  }
  EXPECT_TRUE(at::equal(kernel.run(std::vector{range({2, 3}), range({3, 2})}).at(0),
                        at::mm(range({2, 3}), range({3, 2}))));
}

}  // namespace
}  // namespace lowtide::runtime
