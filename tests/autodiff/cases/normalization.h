#pragma once

#include "autodiff/rule_case.h"
#include "builder/functions.h"

namespace lowtide::testing::normalization {

/// Over x, weight and bias; the function makes the running statistics.
inline RuleCase batch_norm_case(const std::string& name, Operand x, bool training) {
  const std::int64_t channels = x.shape[1];
  return {.name = name,
          .operands = {std::move(x), {{channels}}, {{channels}}},
          .build =
              [=](const Values& v) {
                Builder& b = v[0].builder();
                const Value mean =
                    b.resident("mean", {channels}, v[0].dtype(), Role::buffer, init::zeros());
                const Value variance =
                    b.resident("variance", {channels}, v[0].dtype(), Role::buffer, init::ones());
                return Values{b.call("aten::native_batch_norm", {v[0], v[1], v[2], mean, variance,
                                                                 training, 0.1, 1e-3})[0]};
              },
          .torch =
              [=](const Tensors& v) {
                return Tensors{std::get<0>(at::native_batch_norm(
                    v[0], v[1], v[2], at::zeros({channels}, v[0].options().requires_grad(false)),
                    at::ones({channels}, v[0].options().requires_grad(false)), training, 0.1,
                    1e-3))};
              }};
}

inline RuleCase layer_norm_case(const std::string& name, Operand x, Shape normalized) {
  return {.name = name,
          .operands = {std::move(x), {normalized}, {normalized}},
          .build = [](const Values& v) { return Values{layer_norm(v[0], v[1], v[2])}; },
          .torch =
              [=](const Tensors& v) {
                return Tensors{at::layer_norm(v[0], normalized, v[1], v[2], 1e-5)};
              }};
}

/// Uses the saved statistics as results of their own.
inline RuleCase statistics_case() {
  return {.name = "statistics of layer_norm",
          .operands = {{{3, 5}}},
          .build =
              [](const Values& v) {
                const Values all = v[0].builder().call(
                    "aten::native_layer_norm", {v[0], Shape{5}, NoneArg(), NoneArg(), 1e-5});
                return Values{all[0] * all[1], all[2]};
              },
          .torch =
              [](const Tensors& v) {
                const at::Tensor mean = v[0].mean(1, true);
                const at::Tensor scale = at::rsqrt(v[0].var(1, false, true) + 1e-5);
                return Tensors{(v[0] - mean) * scale * mean, scale};
              },
          .bitwise = false};
}

inline std::vector<RuleCase> cases() {
  return {
      batch_norm_case("batch_norm", {{3, 2, 4, 5}}, true),
      batch_norm_case("batch_norm of strides", transposed({3, 2, 4, 5}), true),
      batch_norm_case("batch_norm of vectors", {{7, 3}}, true),
      batch_norm_case("batch_norm by running statistics", {{3, 2, 4, 5}}, false),
      layer_norm_case("layer_norm", {{2, 3, 7}}, {7}),
      layer_norm_case("layer_norm of strides", transposed({4, 5}), {5}),
      layer_norm_case("layer_norm over two dimensions", {{2, 3, 5}}, {3, 5}),
      statistics_case(),
  };
}

}  // namespace lowtide::testing::normalization
