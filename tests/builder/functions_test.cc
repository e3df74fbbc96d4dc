#include "builder/functions.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "support/throws.h"

namespace lowtide {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Functions : public ::testing::Test {
 protected:
  Value in(Shape shape, DType dtype = DType::f32) {
    return b.input("in" + std::to_string(b.data().tensors.size()), std::move(shape), dtype);
  }
  /// Types of the ops appended since the last call.
  std::vector<std::string> appended() {
    std::vector<std::string> types;
    for (; seen < b.data().ops.size(); ++seen) types.push_back(b.data().ops[seen].type);
    return types;
  }

  Builder b{"functions"};
  std::size_t seen = 0;
};

TEST_F(Functions, DropoutOfNothingIsNothing) {
  const Value x = in({3});
  EXPECT_EQ(dropout(x, 0), x);
  EXPECT_THAT(appended(), IsEmpty());
  EXPECT_THROWS_INPUT_ERROR(dropout(x, 1.5), HasSubstr("1.5"));
  EXPECT_THROWS_INPUT_ERROR(dropout(x, -0.5), HasSubstr("-0.5"));
}

TEST_F(Functions, ReshapeCopiesOnlyWhatCannotBeViewed) {
  const Value x = in({2, 3, 4});
  EXPECT_EQ(reshape(x, {2, 3, -1}), x);
  EXPECT_EQ(reshape(x, {6, -1}).shape(), (Shape{6, 4}));
  EXPECT_THAT(appended(), ElementsAre("aten::view"));
  EXPECT_EQ(flatten(transpose(x, 0, 1), 0, 1).shape(), (Shape{6, 4}));
  EXPECT_THAT(appended(), ElementsAre("aten::transpose.int", "aten::clone", "aten::view"));
  EXPECT_THROWS_INPUT_ERROR(reshape(x, {5, -1}), AllOf(HasSubstr("24"), HasSubstr("[5, -1]")));
}

TEST_F(Functions, FlattenJoinsARangeOfDimensions) {
  EXPECT_EQ(flatten(in({2, 3, 4, 5}), 1, -2).shape(), (Shape{2, 12, 5}));
  EXPECT_EQ(flatten(in({2, 3})).shape(), (Shape{6}));
  EXPECT_EQ(flatten(in({})).shape(), (Shape{1}));
  EXPECT_THROWS_INPUT_ERROR(flatten(in({2, 3}), 1, 0), HasSubstr("flatten"));
}

TEST_F(Functions, ContiguousIsFreeForWhatIs) {
  const Value x = in({2, 3});
  EXPECT_EQ(contiguous(x), x);
  EXPECT_TRUE(contiguous(transpose(x, 0, 1)).type().contiguous());
}

TEST_F(Functions, ChunkAndSplitLeaveASmallerRest) {
  const auto chunks = chunk(in({7, 2}), 3);
  ASSERT_EQ(chunks.size(), 3U);
  EXPECT_EQ(chunks[0].size(0), 3);
  EXPECT_EQ(chunks[2].size(0), 1);
  EXPECT_EQ(split(in({2, 5}), 2, -1).back().shape(), (Shape{2, 1}));
  EXPECT_EQ(unbind(in({2, 5}), 1).size(), 5U);
}

TEST_F(Functions, LinearUsesOneProductWherePyTorchDoes) {
  const Value w = in({5, 4});
  const Value bias = in({5});
  EXPECT_EQ(linear(in({3, 4}), w, bias).shape(), (Shape{3, 5}));
  EXPECT_THAT(appended(), ElementsAre("aten::t", "aten::addmm"));
  EXPECT_EQ(linear(in({2, 3, 4}), w, bias).shape(), (Shape{2, 3, 5}));
  EXPECT_THAT(appended(), ElementsAre("aten::t", "aten::view", "aten::addmm", "aten::view"));
  EXPECT_EQ(linear(in({2, 3, 4}), w).shape(), (Shape{2, 3, 5}));
  EXPECT_THAT(appended(), ElementsAre("aten::t", "aten::view", "aten::mm", "aten::view"));
  EXPECT_EQ(linear(in({4}), w).shape(), (Shape{5}));
  EXPECT_THROWS_INPUT_ERROR(linear(in({3, 5}), w), AllOf(HasSubstr("[3, 5]"), HasSubstr("[5, 4]")));
}

TEST_F(Functions, MatmulBroadcastsLeadingDimensions) {
  EXPECT_EQ(matmul(in({4}), in({4})).shape(), (Shape{}));
  EXPECT_EQ(matmul(in({4}), in({4, 5})).shape(), (Shape{5}));
  EXPECT_EQ(matmul(in({3, 4}), in({4})).shape(), (Shape{3}));
  EXPECT_EQ(matmul(in({2, 3, 4}), in({4})).shape(), (Shape{2, 3}));
  EXPECT_EQ(matmul(in({4}), in({2, 4, 5})).shape(), (Shape{2, 5}));
  EXPECT_EQ(matmul(in({3, 4}), in({2, 4, 5})).shape(), (Shape{2, 3, 5}));
  EXPECT_EQ(matmul(in({2, 1, 3, 4}), in({6, 4, 5})).shape(), (Shape{2, 6, 3, 5}));
  EXPECT_THROWS_INPUT_ERROR(matmul(in({2, 3, 4}), in({3, 4, 5})),
                            AllOf(HasSubstr("matmul"), HasSubstr("[2]"), HasSubstr("[3]")));
  EXPECT_THROWS_INPUT_ERROR(matmul(in({3, 4}), in({5, 4})),
                            AllOf(HasSubstr("[3, 4]"), HasSubstr("[5, 4]")));
  EXPECT_THROWS_INPUT_ERROR(matmul(in({}), in({4})), HasSubstr("dimension"));
}

TEST_F(Functions, CrossEntropyTakesEachPlaceOfAPlane) {
  const auto classes = [&](Shape shape) { return in(std::move(shape), DType::i64); };
  EXPECT_EQ(cross_entropy(in({5, 3}), classes({5})).shape(), (Shape{}));
  EXPECT_THAT(appended(), ElementsAre("aten::_log_softmax", "aten::nll_loss_forward"));
  cross_entropy(in({5, 3, 2, 2}), classes({5, 2, 2}));
  EXPECT_THAT(appended(), ElementsAre("aten::_log_softmax", "aten::nll_loss2d_forward"));
  EXPECT_EQ(cross_entropy(in({5, 3, 7}), classes({5, 7})).shape(), (Shape{}));
  EXPECT_THROWS_INPUT_ERROR(cross_entropy(in({5, 3}), classes({4})),
                            AllOf(HasSubstr("[5, 3]"), HasSubstr("[4]")));
}

TEST_F(Functions, SumToUndoesABroadcast) {
  const Value x = in({2, 3, 4});
  EXPECT_EQ(sum_to(x, {2, 3, 4}), x);
  EXPECT_EQ(sum_to(x, {3, 1}).shape(), (Shape{3, 1}));
  EXPECT_EQ(sum_to(x, {}).shape(), (Shape{}));
  EXPECT_THROWS_INPUT_ERROR(sum_to(x, {3, 5}), AllOf(HasSubstr("[3, 5]"), HasSubstr("[2, 3, 4]")));
  EXPECT_THROWS_INPUT_ERROR(sum_to(x, {5, 2, 3, 4}), HasSubstr("sum_to"));
}

TEST_F(Functions, NumbersLeaveIntegersIntegers) {
  const Value tokens = in({3}, DType::i64);
  EXPECT_EQ((tokens + 1).dtype(), DType::i64);
  EXPECT_EQ((tokens * 0.5).dtype(), DType::f32);
  EXPECT_EQ((tokens / 2).dtype(), DType::f32);
  EXPECT_EQ((1 - in({3})).dtype(), DType::f32);
}

TEST_F(Functions, FilledTensorsDependOnNothing) {
  const Value x = in({2, 3}, DType::i64);
  EXPECT_EQ(zeros_like(x).dtype(), DType::i64);
  EXPECT_THAT(b.data().ops.back().inputs, IsEmpty());
  EXPECT_EQ(ones_like(x).shape(), (Shape{2, 3}));
}

TEST_F(Functions, ConversionToTheSameTypeIsFree) {
  const Value x = in({2});
  EXPECT_EQ(to(x, DType::f32), x);
  EXPECT_EQ(to(x, DType::f64).dtype(), DType::f64);
}

TEST_F(Functions, ShapesThatDoNotFitAreShown) {
  const Value x = in({2, 3, 8, 8});
  EXPECT_THROWS_INPUT_ERROR(in({2, 3}) + in({4}), AllOf(HasSubstr("[2, 3]"), HasSubstr("[4]")));
  EXPECT_THROWS_INPUT_ERROR(conv2d(x, in({4, 2, 3, 3})),
                            AllOf(HasSubstr("[2, 3, 8, 8]"), HasSubstr("[4, 2, 3, 3]")));
  EXPECT_THROWS_INPUT_ERROR(conv2d(x, in({4, 3, 9, 9})), HasSubstr("larger than"));
  EXPECT_THROWS_INPUT_ERROR(max_pool2d(x, {.kernel = {9, 9}}), HasSubstr("[2, 3, 8, 8]"));
  EXPECT_THROWS_INPUT_ERROR(batch_norm(x, in({4}), in({3}), {}, {}),
                            AllOf(HasSubstr("[4]"), HasSubstr("3 channels")));
  EXPECT_THROWS_INPUT_ERROR(layer_norm(x, in({7}), in({7})), HasSubstr("[7]"));
  EXPECT_THROWS_INPUT_ERROR(cat({in({2, 3}), in({3, 4})}, 0),
                            AllOf(HasSubstr("[2, 3]"), HasSubstr("[3, 4]")));
  EXPECT_THROWS_INPUT_ERROR(cat({}, 0), HasSubstr("at least one"));
  EXPECT_THROWS_INPUT_ERROR(select(x, 1, 3), HasSubstr("index 3"));
  EXPECT_THROWS_INPUT_ERROR(transpose(x, 0, 4), HasSubstr("dimension 4"));
  EXPECT_THROWS_INPUT_ERROR(permute(x, {0, 1, 1, 2}), HasSubstr("[0, 1, 1, 2]"));
  EXPECT_THROWS_INPUT_ERROR(expand(in({2, 3}), {2, 4}),
                            AllOf(HasSubstr("[2, 3]"), HasSubstr("[2, 4]")));
  EXPECT_THROWS_INPUT_ERROR(pad(x, {-9, 0}), HasSubstr("[-9, 0]"));
  EXPECT_THROWS_INPUT_ERROR(mean(in({2}, DType::i64)), HasSubstr("i64"));
  EXPECT_THROWS_INPUT_ERROR(sum(in({2, 3}), {0, -2}), HasSubstr("twice"));
}

}  // namespace
}  // namespace lowtide
