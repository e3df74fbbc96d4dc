#pragma once

#include "autodiff/rule_case.h"
#include "builder/functions.h"

namespace lowtide::testing::matrix {

inline std::vector<RuleCase> products() {
  return {
      binary("mm", {{3, 5}}, {{5, 4}}, mm, [](auto& a, auto& b) { return at::mm(a, b); }),
      binary("mm of columns", transposed({3, 5}), {{5, 4}}, mm,
             [](auto& a, auto& b) { return at::mm(a, b); }),
      binary("mm by columns", {{3, 5}}, transposed({5, 4}), mm,
             [](auto& a, auto& b) { return at::mm(a, b); }),
      binary("mm of a row", {{1, 5}}, {{5, 1}}, mm, [](auto& a, auto& b) { return at::mm(a, b); }),
      binary("bmm", {{2, 3, 5}}, {{2, 5, 4}}, bmm, [](auto& a, auto& b) { return at::bmm(a, b); }),
      binary("bmm of strides", transposed({2, 3, 5}), transposed({2, 5, 4}), bmm,
             [](auto& a, auto& b) { return at::bmm(a, b); }),
      binary("matmul of stacks", {{2, 3, 4, 5}}, {{2, 3, 5, 2}}, matmul,
             [](auto& a, auto& b) { return at::matmul(a, b); }),
      binary("matmul over a broadcast", {{2, 1, 4, 5}}, {{3, 5, 2}}, matmul,
             [](auto& a, auto& b) { return at::matmul(a, b); }),
      binary("matmul by a matrix", {{2, 3, 5}}, {{5, 4}}, matmul,
             [](auto& a, auto& b) { return at::matmul(a, b); }),
      binary("linear without bias", {{2, 3, 5}}, {{4, 5}},
             [](Value x, Value w) { return linear(x, w); },
             [](auto& x, auto& w) { return at::linear(x, w); }),
  };
}

inline RuleCase linear_case(const std::string& name, Operand x) {
  return {.name = name,
          .operands = {std::move(x), {{4, 5}}, {{4}}},
          .build = [](const Values& x) { return Values{linear(x[0], x[1], x[2])}; },
          .torch = [](const Tensors& x) { return Tensors{at::linear(x[0], x[1], x[2])}; }};
}

inline std::vector<RuleCase> with_bias() {
  return {
      linear_case("linear", {{3, 5}}),
      linear_case("linear of a sequence", {{2, 3, 5}}),
      {.name = "addmm",
       .operands = {{{4}}, {{3, 5}}, {{5, 4}}},
       .build =
           [](const Values& x) {
             return Values{x[0].builder().call1("aten::addmm", {x[0], x[1], x[2], 0.5, 2})};
           },
       .torch = [](const Tensors& x) { return Tensors{at::addmm(x[0], x[1], x[2], 0.5, 2)}; }},
      {.name = "baddbmm",
       .operands = {{{3, 1}}, {{2, 3, 5}}, {{2, 5, 4}}},
       .build =
           [](const Values& x) {
             return Values{x[0].builder().call1("aten::baddbmm", {x[0], x[1], x[2], 0.5, 2})};
           },
       .torch = [](const Tensors& x) { return Tensors{at::baddbmm(x[0], x[1], x[2], 0.5, 2)}; }},
  };
}

/// The fused kernel has no second derivative, nor has LibTorch's.
inline RuleCase attention() {
  constexpr auto kType = "aten::_scaled_dot_product_flash_attention_for_cpu";
  return {.name = "attention",
          .operands = {{{2, 3, 5, 4}}, {{2, 3, 5, 4}}, {{2, 3, 5, 4}}},
          .build =
              [](const Values& x) {
                return Values{x[0].builder().call(kType, {x[0], x[1], x[2], 0.0, true})[0]};
              },
          .torch =
              [](const Tensors& x) {
                return Tensors{std::get<0>(at::_scaled_dot_product_flash_attention_for_cpu(
                    x[0], x[1], x[2], 0.0, true))};
              },
          .torch_second = false,
          .second = false};
}

inline std::vector<RuleCase> cases() {
  std::vector<RuleCase> cases = products();
  for (RuleCase& rule : with_bias()) cases.push_back(std::move(rule));
  cases.push_back(attention());
  return cases;
}

}  // namespace lowtide::testing::matrix
