#pragma once

#include "autodiff/rule_case.h"
#include "builder/functions.h"

namespace lowtide::testing::view {

inline std::vector<RuleCase> shapes() {
  const Operand x = {{2, 3, 4}};
  return {
      unary("reshape", x, [](Value x) { return sq(reshape(x, {4, -1})); },
            [](auto& x) { return sq(x.reshape({4, -1})); }),
      unary("reshape of strides", transposed({2, 3, 4}),
            [](Value x) { return sq(reshape(x, {4, 6})); },
            [](auto& x) { return sq(x.reshape({4, 6})); }),
      unary("flatten", x, [](Value x) { return sq(flatten(x, 1)); },
            [](auto& x) { return sq(x.flatten(1)); }),
      unary("transpose", x, [](Value x) { return sq(transpose(x, 0, -1)); },
            [](auto& x) { return sq(x.transpose(0, -1)); }),
      unary("t", {{3, 4}}, [](Value x) { return sq(x.builder().call1("aten::t", {x})); },
            [](auto& x) { return sq(x.t()); }),
      unary("permute", x, [](Value x) { return sq(permute(x, {2, 0, 1})); },
            [](auto& x) { return sq(x.permute({2, 0, 1})); }),
      unary("permute from the end", x, [](Value x) { return sq(permute(x, {-1, 0, 1})); },
            [](auto& x) { return sq(x.permute({-1, 0, 1})); }),
      unary("unsqueeze", x, [](Value x) { return sq(unsqueeze(x, 1)); },
            [](auto& x) { return sq(x.unsqueeze(1)); }),
      unary("unsqueeze at the end", x, [](Value x) { return sq(unsqueeze(x, -1)); },
            [](auto& x) { return sq(x.unsqueeze(-1)); }),
      unary("squeeze", {{3, 1, 4}}, [](Value x) { return sq(squeeze(x, -2)); },
            [](auto& x) { return sq(x.squeeze(-2)); }),
      unary("squeeze of nothing", x, [](Value x) { return sq(squeeze(x, 1)); },
            [](auto& x) { return sq(x.squeeze(1)); }),
      unary("expand", {{3, 1}}, [](Value x) { return sq(expand(x, {2, 3, 4})); },
            [](auto& x) { return sq(x.expand({2, 3, 4})); }),
      unary("contiguous", transposed({3, 4}), [](Value x) { return sq(contiguous(x)); },
            [](auto& x) { return sq(x.contiguous()); }),
      unary("alias", x, [](Value x) { return sq(x.builder().call1("aten::alias", {x})); },
            [](auto& x) { return sq(at::alias(x)); }),
      unary("detach", {{2, 3, 4}, Draw::spread},
            [](Value x) { return x * sign(x.builder().call1("aten::detach", {x})); },
            [](auto& x) { return x * x.detach().sign(); }),
  };
}

inline std::vector<RuleCase> parts() {
  return {
      unary("slice", {{5, 4}}, [](Value x) { return sq(slice(x, 0, 1, 4)); },
            [](auto& x) { return sq(x.slice(0, 1, 4)); }),
      unary("slice from the end, by steps", {{3, 9}},
            [](Value x) { return sq(slice(x, -1, -8, 8, 3)); },
            [](auto& x) { return sq(x.slice(-1, -8, 8, 3)); }),
      unary("select", {{3, 4, 2}}, [](Value x) { return sq(select(x, 1, -2)); },
            [](auto& x) { return sq(x.select(1, -2)); }),
      {.name = "split",
       .operands = {{{5, 3}}},
       .build =
           [](const Values& x) {
             const Values parts = split(x[0], 2, 0);
             return Values{sq(parts[0]) * sq(parts[1]), sq(parts[2])};
           },
       .torch =
           [](const Tensors& x) {
             const Tensors parts = x[0].split(2, 0);
             return Tensors{sq(parts[0]) * sq(parts[1]), sq(parts[2])};
           }},
      unary("split with an unused part", {{3, 6}},
            [](Value x) { return sq(split(x, 2, -1)[1]); },
            [](auto& x) { return sq(x.split(2, -1)[1]); }),
      unary("split into sizes", {{6, 3}},
            [](Value x) {
              const auto parts = x.builder().call("aten::split_with_sizes", {x, Shape{1, 3, 2}, 0});
              return sq(parts[1]) * sum(parts[2]);
            },
            [](auto& x) {
              const Tensors parts = x.split_with_sizes({1, 3, 2}, 0);
              return sq(parts[1]) * parts[2].sum();
            }),
      unary("chunk", {{3, 6}},
            [](Value x) {
              const Values parts = chunk(x, 3, 1);
              return parts[0] * parts[1] * parts[2];
            },
            [](auto& x) {
              const Tensors parts = x.chunk(3, 1);
              return parts[0] * parts[1] * parts[2];
            }),
      unary("unbind", {{2, 3, 4}},
            [](Value x) {
              const Values parts = unbind(x, 1);
              return parts[0] * parts[2];
            },
            [](auto& x) {
              const Tensors parts = x.unbind(1);
              return parts[0] * parts[2];
            }),
  };
}

inline std::vector<RuleCase> cases() {
  std::vector<RuleCase> cases = shapes();
  for (RuleCase& rule : parts()) cases.push_back(std::move(rule));
  return cases;
}

}  // namespace lowtide::testing::view
