#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "operands.h"
#include "ops/op_def.h"

/// Calls of every op of the library, small and of odd shapes.
namespace lowtide::testing {

using Sizes = std::vector<std::int64_t>;

/// Makes operands of one element type and layout.
struct Operands {
  Builder& builder;
  DType dtype = DType::f32;
  Layout layout = Layout::contiguous;

  Value operator()(Shape shape) const { return operand(builder, std::move(shape), dtype, layout); }
  Value of(DType other, Shape shape) const {
    return operand(builder, std::move(shape), other, layout);
  }
  Value plain(Shape shape) const { return operand(builder, std::move(shape), dtype); }
  Value indices(Shape shape) const { return operand(builder, std::move(shape), DType::i64); }
  Value mask(Shape shape) const { return of(DType::boolean, std::move(shape)); }
  Value state(Shape shape) const {
    const std::string name = "state" + std::to_string(builder.data().tensors.size());
    return builder.resident(name, std::move(shape), dtype, Role::buffer, init::zeros());
  }
  void call(std::string_view type, std::vector<CallArg> args) const {
    builder.call(type, std::move(args));
  }
};

inline const Shape kPlane = {2, 3, 4, 5};

inline void call_unary(const Operands& x) {
  for (std::string_view type :
       {"aten::neg",      "aten::abs",         "aten::sign",    "aten::sgn",
        "aten::exp",      "aten::log",         "aten::log1p",   "aten::sin",
        "aten::cos",      "aten::sqrt",        "aten::rsqrt",   "aten::reciprocal",
        "aten::erf",      "aten::tanh",        "aten::sigmoid", "aten::relu",
        "aten::silu",     "aten::logical_not", "aten::clone",   "aten::zeros_like",
        "aten::ones_like"}) {
    x.call(type, {x(kPlane)});
  }
  x.call("aten::hardtanh", {x(kPlane), 0.5, 1.0});
  for (std::string form : {"none", "tanh"}) x.call("aten::gelu", {x(kPlane), form});
  for (int format : {0, 1, 2}) x.call("aten::clone", {x(kPlane), format});
  x.call("aten::_to_copy", {x(kPlane), DType::f64});
  x.call("aten::logical_not", {x.mask(kPlane)});
}

inline void call_scalar(const Operands& x) {
  for (std::string_view type :
       {"aten::add.Scalar", "aten::sub.Scalar", "aten::mul.Scalar", "aten::div.Scalar",
        "aten::rsub.Scalar", "aten::gt.Scalar", "aten::ge.Scalar", "aten::lt.Scalar",
        "aten::le.Scalar", "aten::eq.Scalar", "aten::ne.Scalar"}) {
    x.call(type, {x(kPlane), 0.5});
  }
  for (double exponent : {0.0, 0.5, 1.0, 2.0, -1.0, 2.7}) {
    x.call("aten::pow.Tensor_Scalar", {x(kPlane), exponent});
    x.call("aten::pow.Scalar", {exponent, x(kPlane)});
    x.call("aten::lerp.Scalar", {x(kPlane), x(kPlane), exponent});
  }
}

/// Every op of two operands on a pair of them.
inline void call_binary(const Operands& x, const Value& a, const Value& b) {
  for (std::string_view type :
       {"aten::add.Tensor", "aten::sub.Tensor", "aten::mul.Tensor", "aten::div.Tensor",
        "aten::maximum", "aten::minimum", "aten::gt.Tensor", "aten::ge.Tensor", "aten::lt.Tensor",
        "aten::le.Tensor", "aten::eq.Tensor", "aten::ne.Tensor", "aten::tanh_backward",
        "aten::sigmoid_backward", "aten::silu_backward"}) {
    x.call(type, {a, b});
  }
  x.call("aten::threshold_backward", {a, b, 0});
  x.call("aten::hardtanh_backward", {a, b, 0.5, 1.0});
  for (std::string form : {"none", "tanh"}) x.call("aten::gelu_backward", {a, b, form});
}

inline void call_ternary(const Operands& x, const Value& a, const Value& b, const Value& mask) {
  x.call("aten::where.self", {mask, a, b});
  x.call("aten::masked_fill.Scalar", {a, mask, 0.5});
  x.call("aten::native_dropout_backward", {a, mask, 2.0});
  x.call("aten::addcmul", {a, b, b});
  x.call("aten::addcdiv", {a, b, b});
}

inline void call_pointwise(const Operands& x) {
  call_unary(x);
  call_scalar(x);
  call_binary(x, x(kPlane), x(kPlane));
  call_ternary(x, x(kPlane), x(kPlane), x.mask(kPlane));
  x.call("aten::full", {Shape{2, 0, 3}, 1.5, x.dtype});
  x.call("aten::full", {Shape{}, 2});
  x.call("aten::native_dropout", {x(kPlane), 0.4, true});
}

inline void call_views(const Operands& x) {
  x.call("aten::view", {x.plain({2, 3, 4}), Shape{6, -1}});
  x.call("aten::view", {x.plain({0, 3}), Shape{3, 0, 2}});
  x.call("aten::view", {x.plain({}), Shape{1, 1}});
  x.call("aten::view", {x({4, 6}), Shape{2, 2, 1, 6}});
  x.call("aten::permute", {x({2, 3, 4}), Sizes{2, 0, -2}});
  x.call("aten::transpose.int", {x({2, 3, 4}), -1, 0});
  x.call("aten::t", {x({2, 3})});
  x.call("aten::t", {x({3})});
  for (int dim : {0, 1, -1, -3}) x.call("aten::unsqueeze", {x({2, 3}), dim});
  for (int dim : {0, 1, -1}) x.call("aten::squeeze.dim", {x({2, 1, 3}), dim});
  x.call("aten::expand", {x({3, 1}), Shape{2, -1, 4}});
  x.call("aten::expand", {x({3, 1}), Shape{1, 1, 3, 1}});
  x.call("aten::slice.Tensor", {x({5, 4}), 0, 1, 5, 2});
  x.call("aten::slice.Tensor", {x({5, 4}), 1, -3, 100});
  x.call("aten::slice.Tensor", {x({5, 4}), 1, 3, 1});
  x.call("aten::slice.Tensor", {x({5, 4})});
  x.call("aten::select.int", {x({5, 4}), -1, -2});
  x.call("aten::split.Tensor", {x({5, 4}), 2});
  x.call("aten::split.Tensor", {x({5, 4}), 4, -1});
  x.call("aten::split_with_sizes", {x({5, 4}), Sizes{1, 0, 4}});
  x.call("aten::unbind.int", {x({3, 4}), 1});
  x.call("aten::detach", {x({3, 4})});
  x.call("aten::alias", {x({3, 4})});
}

inline void call_attention(const Operands& x, const Value& q, const Value& k, const Value& v) {
  const std::string type = "aten::_scaled_dot_product_flash_attention_for_cpu";
  const auto results = x.builder.call(type, {q, k, v, 0.0, true});
  x.call(type + "_backward", {x.plain(q.shape()), q, k, v, results[0], results[1], 0.0, true});
}

inline void call_matrices(const Operands& x) {
  x.call("aten::mm", {x({3, 4}), x({4, 5})});
  x.call("aten::mm", {x({3, 0}), x({0, 5})});
  x.call("aten::bmm", {x({2, 3, 4}), x({2, 4, 5})});
  x.call("aten::addmm", {x({5}), x({3, 4}), x({4, 5})});
  x.call("aten::addmm", {x({3, 5}), x({3, 4}), x({4, 5})});
  x.call("aten::baddbmm", {x({3, 5}), x({2, 3, 4}), x({2, 4, 5})});
  x.call("aten::baddbmm", {x({2, 3, 5}), x({2, 3, 4}), x({2, 4, 5})});
}

struct ConvExample {
  Shape input, weight;
  Sizes stride, padding, dilation;
  bool transposed;
  std::int64_t groups;
};

inline void call_convolution(const Operands& x, const ConvExample& e) {
  const Sizes none(e.stride.size(), 0);
  const std::int64_t channels = e.transposed ? e.weight[1] * e.groups : e.weight[0];
  const Value input = x(e.input);
  const Value weight = x.plain(e.weight);
  const Value y =
      x.builder.call1("aten::convolution", {input, weight, x.plain({channels}), e.stride, e.padding,
                                            e.dilation, e.transposed, none, e.groups});
  x.call("aten::convolution",
         {input, weight, NoneArg{}, e.stride, e.padding, e.dilation, e.transposed, none, e.groups});
  for (const Sizes& mask : {Sizes{1, 1, 1}, Sizes{0, 1, 0}, Sizes{1, 0, 1}, Sizes{1, 1, 0}}) {
    x.call("aten::convolution_backward",
           {x.plain(y.shape()), input, weight, Sizes{channels}, e.stride, e.padding, e.dilation,
            e.transposed, none, e.groups, mask});
  }
}

inline void call_convolutions(const Operands& x) {
  for (const ConvExample& e : {
           ConvExample{{2, 3, 7, 6}, {4, 3, 3, 3}, {1, 1}, {1, 1}, {1, 1}, false, 1},
           ConvExample{{2, 3, 7, 6}, {4, 3, 2, 3}, {2, 1}, {0, 1}, {1, 2}, false, 1},
           ConvExample{{2, 4, 5, 5}, {4, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, false, 4},
           ConvExample{{2, 4, 5, 5}, {6, 4, 1, 1}, {1, 1}, {0, 0}, {1, 1}, false, 1},
           ConvExample{{2, 1, 5, 5}, {6, 1, 3, 3}, {2, 2}, {1, 1}, {1, 1}, false, 1},
           ConvExample{{2, 4, 3, 4}, {4, 3, 2, 2}, {2, 2}, {0, 0}, {1, 1}, true, 1},
           ConvExample{{2, 3, 9}, {4, 3, 3}, {2}, {1}, {1}, false, 1},
       }) {
    call_convolution(x, e);
  }
}

inline void call_batch_norm(const Operands& x, const Shape& shape, const Sizes& mask) {
  const Value input = x(shape);
  const Value weight = x.plain({3});
  const Value mean = x.state({3});
  const Value variance = x.state({3});
  const auto y = x.builder.call("aten::native_batch_norm",
                                {input, weight, x.plain({3}), mean, variance, true, 0.1, 1e-5});
  x.call("aten::native_batch_norm_backward",
         {x.plain(shape), input, weight, mean, variance, y[1], y[2], true, 1e-5, mask});
}

inline void call_layer_norm(const Operands& x, const Shape& shape, const Shape& inner,
                            const Sizes& mask) {
  const Value input = x(shape);
  const Value weight = x.plain(inner);
  const Value bias = x.plain(inner);
  const auto y = x.builder.call("aten::native_layer_norm", {input, inner, weight, bias, 1e-5});
  x.call("aten::native_layer_norm_backward",
         {x.plain(shape), input, inner, y[1], y[2], weight, bias, mask});
}

inline void call_group_norm(const Operands& x) {
  const Value input = x.plain({2, 6, 4, 5});
  const Value weight = x.plain({6});
  const auto y =
      x.builder.call("aten::native_group_norm", {input, weight, x.plain({6}), 2, 6, 20, 3, 1e-5});
  x.call("aten::native_group_norm_backward",
         {x.plain({2, 6, 4, 5}), input, y[1], y[2], weight, 2, 6, 20, 3, Sizes{1, 1, 1}});
}

inline void call_normalizations(const Operands& x) {
  call_batch_norm(x, kPlane, {1, 1, 1});
  call_batch_norm(x, {5, 3}, {1, 0, 1});
  call_layer_norm(x, {2, 3, 4}, {4}, {1, 1, 1});
  call_layer_norm(x, {2, 3, 4}, {3, 4}, {0, 1, 1});
  call_group_norm(x);
}

inline void call_max_pool(const Operands& x, const Shape& shape, std::vector<CallArg> window) {
  const Value input = x(shape);
  std::vector<CallArg> args = {input};
  args.insert(args.end(), window.begin(), window.end());
  const auto y = x.builder.call("aten::max_pool2d_with_indices", args);
  std::vector<CallArg> back = {x.plain(y[0].shape()), input};
  back.insert(back.end(), window.begin(), window.end());
  back.push_back(y[1]);
  x.call("aten::max_pool2d_with_indices_backward", back);
  x.call("aten::max_unpool2d", {y[0], y[1], Sizes{shape[2], shape[3]}});
}

inline void call_avg_pool(const Operands& x, const Shape& shape, std::vector<CallArg> window) {
  const Value input = x(shape);
  std::vector<CallArg> args = {input};
  args.insert(args.end(), window.begin(), window.end());
  const Value y = x.builder.call1("aten::avg_pool2d", args);
  std::vector<CallArg> back = {x.plain(y.shape()), input};
  back.insert(back.end(), window.begin(), window.end());
  back.push_back(NoneArg{});
  x.call("aten::avg_pool2d_backward", back);
}

inline void call_resizing(const Operands& x) {
  const Shape in = {2, 3, 4, 5};
  const Shape out = {2, 3, 7, 9};
  const Sizes size = {7, 9};
  x.call("aten::_adaptive_avg_pool2d", {x(in), Sizes{2, 3}});
  x.call("aten::_adaptive_avg_pool2d_backward", {x.plain({2, 3, 2, 3}), x(in)});
  x.call("aten::upsample_nearest2d", {x(in), size});
  x.call("aten::upsample_nearest2d_backward", {x(out), size, in});
  for (bool corners : {false, true}) {
    x.call("aten::upsample_bilinear2d", {x(in), size, corners});
    x.call("aten::upsample_bilinear2d_backward", {x(out), size, in, corners});
  }
}

inline void call_pooling(const Operands& x) {
  const Sizes one = {1, 1}, two = {2, 2}, three = {3, 3};
  call_max_pool(x, {2, 3, 7, 8}, {two, two, Sizes{0, 0}, one, false});
  call_max_pool(x, {2, 3, 7, 8}, {three, two, one, one, true});
  call_avg_pool(x, {2, 3, 7, 8}, {three, two, one, true, true});
  call_avg_pool(x, {2, 3, 7, 8}, {two, two, Sizes{0, 0}, false, true});
  call_resizing(x);
}

inline void call_reductions(const Operands& x) {
  const Shape shape = {2, 3, 4};
  x.call("aten::sum", {x(shape)});
  x.call("aten::sum", {x.mask(shape)});
  x.call("aten::mean", {x(shape)});
  for (bool keep : {false, true}) {
    for (std::string_view type : {"aten::sum.dim_IntList", "aten::mean.dim", "aten::amax"}) {
      x.call(type, {x(shape), Sizes{0, -1}, keep});
      x.call(type, {x(shape), Sizes{1}, keep});
      x.call(type, {x(shape), Sizes{}, keep});
    }
    x.call("aten::argmax", {x(shape), 1, keep});
    x.call("aten::linalg_vector_norm", {x(shape), 2.0, Sizes{0, -1}, keep});
  }
  x.call("aten::argmax", {x(shape)});
  x.call("aten::linalg_vector_norm", {x(shape), 2.0});
  for (int dim : {0, 1, -1}) {
    for (std::string type : {"aten::_softmax", "aten::_log_softmax"}) {
      x.call(type, {x(shape), dim, false});
      x.call(type + "_backward_data", {x(shape), x(shape), dim, x.dtype});
    }
  }
}

inline void call_indexing(const Operands& x) {
  x.call("aten::cat", {std::vector{x({2, 3, 4, 5}), x({2, 1, 4, 5})}, 1});
  x.call("aten::cat", {std::vector{x({2, 3}), x.plain({4, 3})}});
  x.call("aten::stack", {std::vector{x({2, 3}), x({2, 3})}, -1});
  x.call("aten::constant_pad_nd", {x({2, 3, 4, 5}), Sizes{1, 2, 0, -1}});
  x.call("aten::slice_backward", {x({2, 3}), Sizes{5, 3}, 0, 1, 5, 2});
  x.call("aten::select_backward", {x({2, 3}), Sizes{2, 4, 3}, 1, 2});
  x.call("aten::embedding", {x({3, 5}), x.indices({2, 4})});
  x.call("aten::embedding_dense_backward", {x({2, 4, 5}), x.indices({2, 4}), 3, -1, false});
  x.call("aten::gather", {x({3, 4}), 0, x.indices({2, 4})});
  x.call("aten::scatter.src", {x({3, 4}), 0, x.indices({2, 4}), x({2, 4})});
  x.call("aten::scatter_add", {x({3, 4}), 0, x.indices({2, 4}), x({3, 4})});
  x.call("aten::index_select", {x({3, 4}), -1, x.indices({5})});
}

inline void call_nll(const Operands& x, const std::string& type, const Shape& scores,
                     const Shape& classes, int reduction) {
  const Value probabilities = x.plain(scores);
  const Value target = x.indices(classes);
  const auto y =
      x.builder.call(type + "_forward", {probabilities, target, NoneArg{}, reduction, -100});
  x.call(type + "_backward",
         {x.plain(y[0].shape()), probabilities, target, NoneArg{}, reduction, -100, y[1]});
}

inline void call_losses(const Operands& x) {
  for (int reduction : {0, 1, 2}) {
    call_nll(x, "aten::nll_loss", {5, 4}, {5}, reduction);
    call_nll(x, "aten::nll_loss2d", {2, 4, 3, 5}, {2, 3, 5}, reduction);
    const Value loss = x.builder.call1("aten::mse_loss", {x(kPlane), x(kPlane), reduction});
    x.call("aten::mse_loss_backward", {x.plain(loss.shape()), x(kPlane), x(kPlane), reduction});
  }
}

inline void call_update_scale(const Operands& x) {
  const auto state = [&](DType dtype) {
    const std::string name = "scaler" + std::to_string(x.builder.data().tensors.size());
    return x.builder.resident(name, {}, dtype, Role::optimizer_state, init::ones());
  };
  x.call("aten::_amp_update_scale_",
         {state(DType::f32), state(DType::i32), x.of(DType::f32, {}), 2.0, 0.5, 2000});
}

inline void call_sgd(const Operands& x, const CallArg& rate, const std::string& overload) {
  x.call("aten::_fused_sgd_" + overload,
         {std::vector{x.state({2, 3}), x.state({4})}, std::vector{x({2, 3}), x({4})},
          std::vector{x.state({2, 3}), x.state({4})}, 0.01, 0.9, rate, 0.0, false, false, false});
}

inline void call_adam(const Operands& x, const std::string& type, const CallArg& rate) {
  const std::vector<Value> step = {
      x.builder.resident("step" + std::to_string(x.builder.data().tensors.size()), {}, DType::f32,
                         Role::optimizer_state, init::ones())};
  x.call(type, {std::vector{x.state({2, 3})}, std::vector{x({2, 3})}, std::vector{x.state({2, 3})},
                std::vector{x.state({2, 3})}, std::vector<Value>{}, step, rate, 0.9, 0.99, 0.01,
                1e-8, false, false});
}

inline void call_updates(const Operands& x) {
  const Value rate =
      x.builder.resident("rate", {}, DType::f32, Role::optimizer_state, init::constant(0.1));
  call_sgd(x, 0.1, "");
  call_sgd(x, rate, ".tensor_lr");
  for (std::string type : {"aten::_fused_adam_", "aten::_fused_adamw_"}) {
    call_adam(x, type, 0.1);
    call_adam(x, type + ".tensor_lr", rate);
  }
  x.call("aten::add_.Scalar", {x.state({2, 3}), 1});
  x.call("aten::add_.Tensor", {x.state({2, 3}), x({2, 3})});
  x.call("aten::mul_.Tensor", {x.state({2, 3}), x({3})});
  x.call("aten::copy_", {x.state({2, 3}), x({2, 3})});
  call_update_scale(x);
}

using Family = void (*)(const Operands&);

inline const std::vector<Family>& families() {
  static const std::vector<Family> all = {
      call_pointwise,
      call_views,
      call_matrices,
      call_convolutions,
      call_normalizations,
      call_pooling,
      call_reductions,
      call_indexing,
      call_losses,
      call_updates,
      [](const Operands& x) {
        call_attention(x, x.plain({2, 3, 5, 8}), x.plain({2, 3, 7, 8}), x.plain({2, 3, 7, 8}));
        call_attention(x, x({2, 3, 4, 8}), x({2, 3, 4, 8}), x({2, 3, 4, 8}));
      }};
  return all;
}

}  // namespace lowtide::testing
