#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "builder/builder.h"

/// Functions that append ops to the graph of their arguments, under PyTorch's names and meanings.
/// Each throws InputError for shapes that do not fit.
namespace lowtide {

// ---- Pointwise. Tensors broadcast. -----------------------------------------------------------
Value operator+(Value a, Value b);
Value operator-(Value a, Value b);
Value operator*(Value a, Value b);
Value operator/(Value a, Value b);
Value operator-(Value a);
Value operator+(Value a, double b);
Value operator-(Value a, double b);
Value operator*(Value a, double b);
Value operator/(Value a, double b);
Value operator+(double a, Value b);
Value operator-(double a, Value b);
Value operator*(double a, Value b);
Value operator/(double a, Value b);
Value exp(Value x);
Value log(Value x);
Value sin(Value x);
Value cos(Value x);
Value sqrt(Value x);
Value rsqrt(Value x);
Value abs(Value x);
Value sign(Value x);
Value pow(Value x, double exponent);
Value reciprocal(Value x);
Value tanh(Value x);
Value sigmoid(Value x);
Value relu(Value x);
Value hardtanh(Value x, double low, double high);
Value relu6(Value x);
Value silu(Value x);
/// `tanh_approximation`: as GPT-2 uses it.
Value gelu(Value x, bool tanh_approximation = false);
Value maximum(Value a, Value b);
Value minimum(Value a, Value b);
Value where(Value condition, Value a, Value b);
Value masked_fill(Value x, Value mask, double value);
Value logical_not(Value mask);
Value to(Value x, DType dtype);
/// x > threshold, as a boolean tensor; and the other comparisons.
Value gt(Value x, double threshold);
Value ge(Value x, double threshold);
Value lt(Value x, double threshold);
Value le(Value x, double threshold);
Value eq(Value a, Value b);
Value zeros_like(Value x);
Value ones_like(Value x);
/// Fresh tensors filled with a value (aten::full).
Value full(Builder& builder, Shape shape, double value, DType dtype = DType::f32);

// ---- Views: no bytes of their own. ------------------------------------------------------------
/// One size may be -1. Copies first when x is not contiguous (as torch.reshape).
Value reshape(Value x, Shape shape);
Value flatten(Value x, std::int64_t start = 0, std::int64_t end = -1);
Value transpose(Value x, std::int64_t dim0, std::int64_t dim1);
Value permute(Value x, std::vector<std::int64_t> dims);
Value unsqueeze(Value x, std::int64_t dim);
Value squeeze(Value x, std::int64_t dim);
Value expand(Value x, Shape shape);
Value slice(Value x, std::int64_t dim, std::int64_t start, std::int64_t end, std::int64_t step = 1);
Value select(Value x, std::int64_t dim, std::int64_t index);
std::vector<Value> split(Value x, std::int64_t size, std::int64_t dim = 0);
std::vector<Value> chunk(Value x, std::int64_t chunks, std::int64_t dim = 0);
std::vector<Value> unbind(Value x, std::int64_t dim = 0);
/// A contiguous copy, or x itself when it is contiguous already.
Value contiguous(Value x);
Value clone(Value x);

// ---- Matrices ---------------------------------------------------------------------------------
Value mm(Value a, Value b);
Value bmm(Value a, Value b);
/// Products of the last two dimensions; leading ones broadcast, as torch.matmul.
Value matmul(Value a, Value b);
/// x (.., in) by weight (out, in): (.., out). `bias` (out) may be empty.
Value linear(Value x, Value weight, Value bias = {});

// ---- Convolution and pooling, N x C x H x W ----------------------------------------------------
struct ConvOptions {
  std::vector<std::int64_t> stride = {1, 1};
  std::vector<std::int64_t> padding = {0, 0};
  std::vector<std::int64_t> dilation = {1, 1};
  std::int64_t groups = 1;
};
Value conv2d(Value x, Value weight, Value bias = {}, const ConvOptions& options = {});
Value conv_transpose2d(Value x, Value weight, Value bias = {}, const ConvOptions& options = {});
struct PoolOptions {
  std::vector<std::int64_t> kernel;
  std::vector<std::int64_t> stride = {};  ///< empty: the kernel
  std::vector<std::int64_t> padding = {0, 0};
  bool ceil_mode = false;
};
/// Values and the indices of the maxima (i64).
std::pair<Value, Value> max_pool2d_with_indices(Value x, const PoolOptions& options);
Value max_pool2d(Value x, const PoolOptions& options);
/// Undoes a max pooling (SegNet): scatters x to `indices` in a zero plane of height x width.
Value max_unpool2d(Value x, Value indices, std::int64_t height, std::int64_t width);
Value avg_pool2d(Value x, const PoolOptions& options);
/// Mean over all of H x W, kept as 1 x 1.
Value global_avg_pool2d(Value x);
/// Means over height x width windows that cover the plane, whatever its size.
Value adaptive_avg_pool2d(Value x, std::int64_t height, std::int64_t width);
Value upsample_bilinear2d(Value x, std::int64_t height, std::int64_t width);
Value upsample_nearest2d(Value x, std::int64_t height, std::int64_t width);

// ---- Normalization ------------------------------------------------------------------------------
/// In training mode; the running statistics are updated in place, once per step.
Value batch_norm(Value x, Value weight, Value bias, Value running_mean, Value running_var,
                 double momentum = 0.1, double epsilon = 1e-5);
/// Over the last `weight.dim()` dimensions.
Value layer_norm(Value x, Value weight, Value bias, double epsilon = 1e-5);

// ---- Reductions
// -----------------------------------------------------------------------------------
/// Over `dims` (all when empty).
Value sum(Value x, std::vector<std::int64_t> dims = {}, bool keep_dims = false);
Value mean(Value x, std::vector<std::int64_t> dims = {}, bool keep_dims = false);
Value amax(Value x, std::vector<std::int64_t> dims, bool keep_dims = false);
Value softmax(Value x, std::int64_t dim);
Value log_softmax(Value x, std::int64_t dim);
/// Sums away the dimensions that broadcasting `shape` to x's shape added.
Value sum_to(Value x, const Shape& shape);

// ---- Joining and indexing
// ---------------------------------------------------------------------------
Value cat(std::vector<Value> parts, std::int64_t dim);
Value stack(std::vector<Value> parts, std::int64_t dim);
/// Rows of `weight` (count, width) at `indices` (i64).
Value embedding(Value weight, Value indices);
/// x padded with zeros; {left, right, top, bottom, ...} from the last dimension on.
Value pad(Value x, std::vector<std::int64_t> padding);

// ---- Random
// -------------------------------------------------------------------------------------------
/// Training mode: zeroes each element with `probability`, scales the rest. x itself when it is 0.
Value dropout(Value x, double probability);

// ---- Losses, means over the batch
// ------------------------------------------------------------------------
/// logits (N, C, ...), target (N, ...) of class indices.
Value cross_entropy(Value logits, Value target);
Value nll_loss(Value log_probabilities, Value target);
Value mse_loss(Value x, Value target);
Value binary_cross_entropy_with_logits(Value x, Value target);

}  // namespace lowtide
