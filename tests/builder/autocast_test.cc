#include "builder/autocast.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "builder/functions.h"
#include "support/throws.h"

namespace lowtide {
namespace {

using ::testing::HasSubstr;

std::ptrdiff_t casts(const Builder& b) {
  return std::ranges::count(b.data().ops, std::string("aten::_to_copy"), &Op::type);
}

class AutocastTest : public ::testing::Test {
 protected:
  Value in(Shape shape, DType dtype = DType::f32) {
    return b.input("x" + std::to_string(b.data().tensors.size()), std::move(shape), dtype);
  }
  Value weight(Shape shape) {
    return b.parameter("w" + std::to_string(b.data().tensors.size()), std::move(shape),
                       init::ones());
  }
  Builder b{"autocast"};
};

TEST_F(AutocastTest, CastsWhatEachFunctionTakes) {
  const Builder::Autocast autocast(b, DType::bf16);
  const Value x = in({4, 4});
  const Value lower = mm(x, x);
  EXPECT_EQ(lower.dtype(), DType::bf16);
  EXPECT_EQ(relu(lower).dtype(), DType::bf16);
  EXPECT_EQ((lower + x).dtype(), DType::f32);
  EXPECT_EQ(cat({lower, lower}, 0).dtype(), DType::bf16);
  EXPECT_EQ(cat({lower, x}, 0).dtype(), DType::f32);
  EXPECT_EQ(softmax(lower, 1).dtype(), DType::bf16);
  EXPECT_EQ(cross_entropy(lower, in({4}, DType::i64)).dtype(), DType::f32);
  EXPECT_EQ(mse_loss(lower, lower).dtype(), DType::f32);
}

TEST_F(AutocastTest, CastsAParameterOnceAndOtherValuesForEachUse) {
  const Builder::Autocast autocast(b, DType::bf16);
  const Value w = weight({4, 4}), x = in({2, 4});
  const Value once = linear(x, w);
  EXPECT_EQ(casts(b), 2);  // of x and of w
  linear(once, w);
  EXPECT_EQ(casts(b), 2);
  linear(x, w);
  EXPECT_EQ(casts(b), 3);  // of x
  bmm(in({1, 2, 4}), unsqueeze(w, 0));
  EXPECT_EQ(casts(b), 5);  // a view of a parameter is cast on its own
}

TEST_F(AutocastTest, LeavesDoublesIntegersAndMissingOperandsAlone) {
  const Builder::Autocast autocast(b, DType::f16);
  const Value x = in({2, 3, 4, 4}, DType::f64);
  EXPECT_EQ(conv2d(x, in({5, 3, 1, 1}, DType::f64)).dtype(), DType::f64);
  EXPECT_EQ(conv2d(in({2, 3, 4, 4}), weight({5, 3, 1, 1})).dtype(), DType::f16);
  EXPECT_EQ(mm(in({2, 2}, DType::i64), in({2, 2}, DType::i64)).dtype(), DType::i64);
}

TEST_F(AutocastTest, EndsWithItsScopeAndTheCastsWithIt) {
  const Value w = weight({4, 4}), x = in({2, 4});
  for (int i = 1; i <= 2; ++i) {
    const Builder::Autocast autocast(b, DType::bf16);
    EXPECT_EQ(linear(x, w).dtype(), DType::bf16);
    EXPECT_EQ(casts(b), 2 * i);
    const Builder::Autocast none(b, DType::f32);
    EXPECT_EQ(linear(x, w).dtype(), DType::f32);
  }
  EXPECT_EQ(linear(x, w).dtype(), DType::f32);
  EXPECT_EQ(casts(b), 4);
}

TEST_F(AutocastTest, RefusesOtherTypes) {
  EXPECT_THROWS_INPUT_ERROR(Builder::Autocast(b, DType::i64), HasSubstr("i64"));
  EXPECT_THROWS_INPUT_ERROR(Builder::Autocast(b, DType::f64), HasSubstr("bf16"));
}

}  // namespace
}  // namespace lowtide
