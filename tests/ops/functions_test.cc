#include "builder/functions.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "eager.h"
#include "operands.h"

/// The functions of the builder against PyTorch's of the same name, to the last bit.
namespace lowtide::ops {
namespace {

using testing::Eager;
using testing::Layout;
using testing::operand;
using Sizes = std::vector<std::int64_t>;

class Functions : public ::testing::Test {
 protected:
  Value in(Shape shape, Layout layout = Layout::contiguous) {
    return operand(b, std::move(shape), DType::f32, layout);
  }
  Value classes(Shape shape) { return operand(b, std::move(shape), DType::i64); }

  /// Runs the ops built so far; then real() gives the contents of built values.
  void run() {
    eager.emplace(b.data());
    for (const Op& op : b.data().ops) eager->run(op);
  }
  at::Tensor real(Value value) const { return eager->tensor(value.id()); }

  Builder b{"functions"};
  std::optional<Eager> eager;
};

#define EXPECT_SAME(value, expected) EXPECT_TRUE(at::equal(real(value), expected)) << #value

/// PyTorch multiplies more than two dimensions of a non-contiguous operand with other kernels than
/// ours, which round differently; contiguous ones agree to the last bit.
#define EXPECT_SAME_PRODUCT(layout, value, expected)      \
  EXPECT_TRUE((layout) == Layout::contiguous              \
                  ? at::equal(real(value), expected)      \
                  : at::allclose(real(value), expected))  \
      << #value

TEST_F(Functions, LinearIsPyTorchs) {
  const Value w = in({5, 7}), bias = in({5});
  for (const Shape& shape : {Shape{3, 7}, Shape{2, 3, 7}, Shape{2, 3, 4, 7}}) {
    for (Layout layout : testing::all_layouts()) {
      const Value x = in(shape, layout);
      const Value with = linear(x, w, bias), without = linear(x, w);
      run();
      EXPECT_SAME_PRODUCT(layout, with, at::linear(real(x), real(w), real(bias)));
      EXPECT_SAME_PRODUCT(layout, without, at::linear(real(x), real(w)));
    }
  }
}

TEST_F(Functions, MatmulIsPyTorchs) {
  const std::vector<std::pair<Shape, Shape>> shapes = {
      {{3, 4}, {4, 5}},       {{2, 3, 4}, {4, 5}},       {{2, 3, 4}, {2, 4, 5}},
      {{2, 1, 3, 4}, {6, 4, 5}}, {{2, 3, 5, 4}, {2, 3, 4, 5}}};
  for (const auto& [first, second] : shapes) {
    for (Layout layout : testing::all_layouts()) {
      const Value x = in(first, layout), y = in(second, layout);
      const Value product = matmul(x, y);
      run();
      EXPECT_SAME_PRODUCT(layout, product, at::matmul(real(x), real(y)));
    }
  }
}

TEST_F(Functions, PointwiseOnesArePyTorchs) {
  const Value x = in({3, 4}), y = in({4});
  const Value numbers[] = {x + 2, x - 2, x * 2, x / 3, 2 - x, 2 / x, pow(x, 3), relu6(x * 9)};
  const Value gelus[] = {gelu(x), gelu(x, true)};
  const Value chosen = where(gt(x, 0.7), x, y);
  const Value filled = masked_fill(x, logical_not(lt(x, 0.7)), -1);
  const Value others[] = {maximum(x, y), minimum(x, y), to(ge(x, 0.5), DType::f32), silu(x),
                          ones_like(x), full(b, {2, 3}, 1.5)};
  run();
  const at::Tensor a = real(x), c = real(y);
  const at::Tensor expected[] = {a + 2, a - 2, a * 2,    a / 3,
                                 2 - a, 2 / a, a.pow(3), at::hardtanh(a * 9, 0, 6)};
  for (std::size_t i = 0; i < std::size(numbers); ++i) EXPECT_SAME(numbers[i], expected[i]);
  EXPECT_SAME(gelus[0], at::gelu(a));
  EXPECT_SAME(gelus[1], at::gelu(a, "tanh"));
  EXPECT_SAME(chosen, at::where(a > 0.7, a, c));
  EXPECT_SAME(filled, a.masked_fill(~(a < 0.7), -1));
  const at::Tensor rest[] = {at::maximum(a, c), at::minimum(a, c),
                             (a >= 0.5).to(at::kFloat), at::silu(a),
                             at::ones_like(a), at::full({2, 3}, 1.5)};
  for (std::size_t i = 0; i < std::size(others); ++i) EXPECT_SAME(others[i], rest[i]);
}

TEST_F(Functions, ViewsAndJoinsArePyTorchs) {
  const Value x = in({2, 3, 4});
  const Value views[] = {reshape(x, {4, -1}), flatten(x, 1), transpose(x, 0, -1),
                         permute(x, {2, 0, 1}), unsqueeze(x, -1), expand(x, {2, 2, 3, 4}),
                         slice(x, 1, 0, 3, 2), select(x, 2, -1), chunk(x, 2, 2)[1],
                         unbind(x, 1)[2], contiguous(transpose(x, 1, 2))};
  const Value joined[] = {cat({x, x}, 1), stack({x, x}, 0), pad(x, {1, 2, 0, 1})};
  run();
  const at::Tensor a = real(x);
  const at::Tensor expected[] = {a.reshape({4, -1}), a.flatten(1), a.transpose(0, -1),
                                 a.permute({2, 0, 1}), a.unsqueeze(-1), a.expand({2, 2, 3, 4}),
                                 a.slice(1, 0, 3, 2), a.select(2, -1), a.chunk(2, 2)[1],
                                 a.unbind(1)[2], a.transpose(1, 2)};
  for (std::size_t i = 0; i < std::size(views); ++i) EXPECT_SAME(views[i], expected[i]);
  EXPECT_SAME(joined[0], at::cat({a, a}, 1));
  EXPECT_SAME(joined[1], at::stack({a, a}, 0));
  EXPECT_SAME(joined[2], at::pad(a, {1, 2, 0, 1}));
}

TEST_F(Functions, PlanesArePyTorchs) {
  const Value x = in({2, 4, 9, 8}), w = in({6, 2, 3, 3}), bias = in({6}), wt = in({4, 3, 2, 2});
  const ConvOptions grouped{.stride = {2, 1}, .padding = {1, 0}, .dilation = {1, 2}, .groups = 2};
  const Value conv = conv2d(x, w, bias, grouped);
  const Value transposed = conv_transpose2d(x, wt, {}, {.stride = {2, 2}});
  const PoolOptions window{
      .kernel = {3, 2}, .stride = {2, 2}, .padding = {1, 1}, .ceil_mode = true};
  const auto [values, indices] = max_pool2d_with_indices(x, {.kernel = {2, 2}});
  const Value pools[] = {max_pool2d(x, window), avg_pool2d(x, window), global_avg_pool2d(x),
                         max_unpool2d(values, indices, 9, 8), upsample_bilinear2d(x, 18, 16),
                         upsample_nearest2d(x, 11, 5)};
  run();
  const at::Tensor a = real(x);
  EXPECT_SAME(conv, at::conv2d(a, real(w), real(bias), {2, 1}, Sizes{1, 0}, {1, 2}, 2));
  EXPECT_SAME(transposed, at::conv_transpose2d(a, real(wt), {}, {2, 2}));
  const at::Tensor expected[] = {
      at::max_pool2d(a, {3, 2}, {2, 2}, {1, 1}, 1, true),
      at::avg_pool2d(a, {3, 2}, {2, 2}, {1, 1}, true),
      at::adaptive_avg_pool2d(a, {1, 1}),
      at::max_unpool2d(real(values), real(indices), {9, 8}),
      at::upsample_bilinear2d(a, Sizes{18, 16}, false),
      at::upsample_nearest2d(a, Sizes{11, 5})};
  for (std::size_t i = 0; i < std::size(pools); ++i) EXPECT_SAME(pools[i], expected[i]);
}

TEST_F(Functions, NormalizationsAndReductionsArePyTorchs) {
  const Value x = in({4, 3, 5}), w = in({3}), v = in({3}), inner = in({5});
  const Value mean_state = b.buffer("mean", {3}, init::zeros());
  const Value variance_state = b.buffer("variance", {3}, init::ones());
  const Value normed = batch_norm(x, w, v, mean_state, variance_state, 0.2, 1e-3);
  const Value values[] = {layer_norm(x, inner, inner), sum(x), sum(x, {0, 2}, true), mean(x),
                          mean(x, {1}), mean(x, {}, true), amax(x, {1}), softmax(x, 1),
                          log_softmax(x, -1), sum_to(x, {3, 1})};
  eager.emplace(b.data());
  const at::Tensor mean_copy = real(mean_state).clone();
  const at::Tensor variance_copy = real(variance_state).clone();
  for (const Op& op : b.data().ops) eager->run(op);
  const at::Tensor a = real(x);
  EXPECT_SAME(normed, at::batch_norm(a, real(w), real(v), mean_copy, variance_copy, true, 0.2,
                                     1e-3, false));
  EXPECT_SAME(mean_state, mean_copy);
  EXPECT_SAME(variance_state, variance_copy);
  const at::Tensor expected[] = {at::layer_norm(a, {5}, real(inner), real(inner)), a.sum(),
                                 a.sum(Sizes{0, 2}, true), a.mean(), a.mean(1),
                                 a.mean(Sizes{0, 1, 2}, true), a.amax(1), at::softmax(a, 1),
                                 at::log_softmax(a, -1), a.sum_to_size({3, 1})};
  for (std::size_t i = 0; i < std::size(values); ++i) EXPECT_SAME(values[i], expected[i]);
}

TEST_F(Functions, LossesArePyTorchs) {
  const Value rows = in({5, 4}), row_target = classes({5});
  const Value planes = in({2, 4, 3, 5}), plane_target = classes({2, 3, 5});
  const Value series = in({2, 4, 7}), series_target = classes({2, 7});
  const Value y = in({5, 4});
  const Value losses[] = {cross_entropy(rows, row_target), cross_entropy(planes, plane_target),
                          cross_entropy(series, series_target), mse_loss(rows, y)};
  const Value logits = (rows - 0.75) * 60;
  const Value binary = binary_cross_entropy_with_logits(logits, gt(y, 0.7));
  run();
  EXPECT_SAME(losses[0], at::cross_entropy_loss(real(rows), real(row_target)));
  EXPECT_SAME(losses[1], at::cross_entropy_loss(real(planes), real(plane_target)));
  EXPECT_SAME(losses[2], at::cross_entropy_loss(real(series), real(series_target)));
  EXPECT_SAME(losses[3], at::mse_loss(real(rows), real(y)));
  const at::Tensor truth = (real(y) > 0.7).to(at::kFloat);
  EXPECT_TRUE(at::allclose(real(binary),
                           at::binary_cross_entropy_with_logits(real(logits), truth), 1e-6));
}

TEST_F(Functions, EmbeddingAndDropoutArePyTorchs) {
  const Value table = in({3, 5}), tokens = classes({2, 4}), x = in({6, 7});
  const Value rows = embedding(table, tokens);
  const Value dropped = dropout(x, 0.3);
  eager.emplace(b.data());
  for (const Op& op : b.data().ops) {
    at::manual_seed(3);
    eager->run(op);
  }
  EXPECT_SAME(rows, at::embedding(real(table), real(tokens)));
  at::manual_seed(3);
  EXPECT_SAME(dropped, std::get<0>(at::native_dropout(real(x), 0.3, true)));
}

}  // namespace
}  // namespace lowtide::ops
