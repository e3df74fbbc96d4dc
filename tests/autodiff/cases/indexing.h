#pragma once

#include "autodiff/rule_case.h"
#include "builder/functions.h"

namespace lowtide::testing::indexing {

inline RuleCase scatter_case() {
  return {.name = "scatter_add",
          .operands = {{{4, 5}}, index({3, 5}, 4), {{3, 5}}},
          .build =
              [](const Values& x) {
                return Values{
                    sq(x[0].builder().call1("aten::scatter_add", {x[0], 0, x[1], x[2]}))};
              },
          .torch =
              [](const Tensors& x) { return Tensors{sq(x[0].scatter_add(0, x[1], x[2]))}; }};
}

inline std::vector<RuleCase> cases() {
  return {
      binary("cat", {{2, 3}}, {{2, 4}}, [](Value a, Value b) { return sq(cat({a, b, a}, 1)); },
             [](auto& a, auto& b) { return sq(at::cat({a, b, a}, 1)); }),
      binary("cat of strides from the end", transposed({2, 3}), {{4, 3}},
             [](Value a, Value b) { return sq(cat({a, b}, -2)); },
             [](auto& a, auto& b) { return sq(at::cat({a, b}, -2)); }),
      binary("stack", {{2, 3}}, transposed({2, 3}),
             [](Value a, Value b) { return sq(stack({a, b, a}, 1)); },
             [](auto& a, auto& b) { return sq(at::stack({a, b, a}, 1)); }),
      binary("aten::stack", {{2, 3}}, {{2, 3}},
             [](Value a, Value b) {
               return sq(a.builder().call1("aten::stack", {std::vector{a, b}, -1}));
             },
             [](auto& a, auto& b) { return sq(at::stack({a, b}, -1)); }),
      binary("embedding", {{5, 3}}, index({2, 4}, 5),
             [](Value w, Value i) { return sq(embedding(w, i)); },
             [](auto& w, auto& i) { return sq(at::embedding(w, i)); }),
      unary("pad", {{2, 3, 4}}, [](Value x) { return sq(pad(x, {1, 2, 0, 3})); },
            [](auto& x) { return sq(at::constant_pad_nd(x, {1, 2, 0, 3})); }),
      unary("crop", {{2, 5, 6}}, [](Value x) { return sq(pad(x, {-1, 2, -2, -1})); },
            [](auto& x) { return sq(at::constant_pad_nd(x, {-1, 2, -2, -1})); }),
      binary("gather", {{4, 5}}, index({3, 5}, 4),
             [](Value x, Value i) {
               return sq(x.builder().call1("aten::gather", {x, 0, i}));
             },
             [](auto& x, auto& i) { return sq(x.gather(0, i)); }),
      scatter_case(),
  };
}

}  // namespace lowtide::testing::indexing
