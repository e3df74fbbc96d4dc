#include <gmock/gmock.h>

#include "eager.h"
#include "examples.h"

/// Every shape rule against the actual results of LibTorch.
namespace lowtide::ops {
namespace {

using testing::all_layouts;
using testing::Eager;
using testing::Layout;
using testing::operand;
using testing::Operands;

Shape strides_of(const Tensor& tensor) {
  return tensor.strides.empty() ? contiguous_strides(tensor.shape) : tensor.strides;
}

/// The stride of a dimension of size 1 is never used, so kernels may set any.
Shape used_strides(Shape strides, const Shape& shape) {
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 1) strides[i] = 0;
  }
  return strides;
}

void expect_output(const Eager& eager, const Op& op, TensorId id, const at::Tensor& real) {
  const Tensor& predicted = eager.predicted(id);
  EXPECT_EQ(real.scalar_type(), runtime::scalar_type(*predicted.dtype));
  EXPECT_EQ(real.sizes().vec(), predicted.shape);
  EXPECT_EQ(used_strides(real.strides().vec(), predicted.shape),
            used_strides(strides_of(predicted), predicted.shape));
  if (predicted.alias_of == kNone) {
    EXPECT_EQ(static_cast<Bytes>(real.storage().nbytes()), predicted.bytes);
    for (const at::Tensor& input : eager.inputs(op)) EXPECT_FALSE(real.is_alias_of(input));
  } else {
    EXPECT_TRUE(real.is_alias_of(eager.tensor(predicted.alias_of)));
  }
}

std::string describe(const Eager& eager, const Op& op) {
  std::string text = op.name + " of";
  for (TensorId id : op.inputs) {
    text += " " + ::testing::PrintToString(eager.predicted(id).shape) + " by " +
            ::testing::PrintToString(strides_of(eager.predicted(id)));
  }
  return text;
}

void expect_predicted(const Builder& builder) {
  Eager eager(builder.data());
  for (const Op& op : builder.data().ops) {
    SCOPED_TRACE(describe(eager, op));
    const std::vector<at::Tensor> results = eager.run(op);
    ASSERT_EQ(results.size(), op.outputs.size());
    for (std::size_t i = 0; i < results.size(); ++i) {
      expect_output(eager, op, op.outputs[i], results[i]);
    }
  }
}

class EveryOp : public ::testing::TestWithParam<std::tuple<DType, Layout>> {};

TEST_P(EveryOp, ReturnsWhatWasPredicted) {
  Builder builder("examples");
  const Operands operands{builder, std::get<0>(GetParam()), std::get<1>(GetParam())};
  for (const auto family : testing::families()) family(operands);
  expect_predicted(builder);
}

INSTANTIATE_TEST_SUITE_P(Examples, EveryOp,
                         ::testing::Combine(::testing::Values(DType::f32, DType::f64, DType::bf16,
                                                              DType::f16),
                                            ::testing::ValuesIn(all_layouts())));

TEST(Examples, CoverEveryOpOfTheLibrary) {
  Builder builder("examples");
  for (const auto family : testing::families()) family({builder});
  std::set<std::string> covered;
  for (const Op& op : builder.data().ops) covered.insert(op.type);
  std::vector<std::string> names = op_names();
  // They run on a GPU alone, and have the shapes of PyTorch's own batch norm.
  std::erase_if(names, [](const auto& name) { return name.starts_with("lowtide::cudnn_"); });
  EXPECT_EQ(covered, std::set<std::string>(names.begin(), names.end()));
}

TEST(Elementwise, LaysOutResultsOfMixedLayoutsAsLibTorch) {
  Builder builder("pairs");
  const std::vector<Shape> shapes = {{2, 3, 4, 5}, {4, 5}, {1, 3, 1, 5}, {2, 1, 4, 1}, {5}, {},
                                     {2, 3, 1, 1}};
  for (const Shape& first : shapes) {
    for (const Shape& second : shapes) {
      for (Layout a : all_layouts()) {
        for (Layout b : all_layouts()) {
          operand(builder, first, DType::f32, a) + operand(builder, second, DType::f32, b);
        }
      }
    }
  }
  expect_predicted(builder);
}

TEST(Elementwise, LetsTheSameOperandDecideAsLibTorch) {
  for (Layout a : all_layouts()) {
    for (Layout b : all_layouts()) {
      Builder builder("pairs");
      const Operands operands{builder};
      const Value x = operand(builder, testing::kPlane, DType::f32, a);
      const Value y = operand(builder, testing::kPlane, DType::f32, b);
      testing::call_binary(operands, x, y);
      testing::call_ternary(operands, x, y, operand(builder, {4, 5}, DType::boolean, b));
      testing::call_ternary(operands, x, y, operand(builder, testing::kPlane, DType::boolean, b));
      expect_predicted(builder);
    }
  }
}

TEST(Elementwise, ReadsLayoutsWithDimensionsOfSizeOneAndZeroAsLibTorch) {
  Builder builder("odd");
  for (const Shape& shape : {Shape{1, 3, 1, 1}, Shape{3, 1, 1, 1}, Shape{2, 1, 4, 5}, Shape{1, 1},
                             Shape{0, 3, 2, 2}, Shape{2, 3, 0, 1}, Shape{1, 3, 4, 1}}) {
    for (Layout a : all_layouts()) {
      for (Layout b : all_layouts()) {
        const Value x = operand(builder, shape, DType::f32, a);
        x* operand(builder, shape, DType::f32, b);
        clone(x);
      }
    }
  }
  expect_predicted(builder);
}

constexpr DType kDTypes[] = {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i64,
                             DType::i32, DType::i16, DType::i8,  DType::u8,   DType::boolean};

TEST(Promotion, MixesElementTypesAsLibTorch) {
  Builder builder("mixed");
  for (DType a : kDTypes) {
    const Value x = operand(builder, {2, 3}, a);
    const Value scalar = operand(builder, {}, a);
    for (const Value& self : {x, scalar}) {
      builder.call("aten::mul.Scalar", {self, 2});
      builder.call("aten::mul.Scalar", {self, 2.5});
      builder.call("aten::div.Scalar", {self, 2});
      builder.call("aten::sum", {self});
      builder.call("aten::exp", {self});
    }
    for (DType b : kDTypes) {
      const Value y = operand(builder, {3}, b);
      const Value other = operand(builder, {}, b);
      for (const char* type : {"aten::add.Tensor", "aten::div.Tensor", "aten::gt.Tensor"}) {
        builder.call(type, {x, y});
        builder.call(type, {x, other});
        builder.call(type, {scalar, y});
        builder.call(type, {scalar, other});
      }
    }
  }
  expect_predicted(builder);
}

TEST(Reshape, ViewsExactlyWhereLibTorchCan) {
  Builder builder("reshape");
  int copies = 0;
  for (Layout layout : all_layouts()) {
    for (const Shape& shape : {Shape{120}, Shape{2, 12, 5}, Shape{2, 3, 20}, Shape{6, 4, 5},
                               Shape{2, 3, 4, 5, 1}, Shape{2, 1, 3, 4, 5}, Shape{2, 3, 2, 2, 5}}) {
      const Value x = operand(builder, testing::kPlane, DType::f32, layout);
      const std::size_t before = builder.data().ops.size();
      reshape(x, shape);
      const bool copied = builder.data().ops.size() > before + 1;
      copies += copied;
      const at::Tensor real = at::empty_strided(x.shape(), x.type().strides);
      EXPECT_EQ(copied, !real.reshape(shape).is_alias_of(real));
    }
  }
  EXPECT_GT(copies, 0);
  expect_predicted(builder);
}

}  // namespace
}  // namespace lowtide::ops
