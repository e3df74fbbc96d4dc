#pragma once

#include "autodiff/rule_case.h"
#include "builder/functions.h"

namespace lowtide::testing::reduction {

inline std::vector<RuleCase> cases() {
  const Operand x = {{2, 3, 5}}, strides = transposed({2, 3, 5});
  const Operand distinct = {{2, 3, 5}, Draw::spread};
  return {
      unary("sum", x, [](Value x) { return sq(sum(x)); }, [](auto& x) { return sq(x.sum()); }),
      unary("aten::sum", x, [](Value x) { return sq(x.builder().call1("aten::sum", {x})); },
            [](auto& x) { return sq(x.sum()); }),
      unary("sum over dimensions", strides, [](Value x) { return sq(sum(x, {-1, 0})); },
            [](auto& x) { return sq(x.sum({-1, 0})); }),
      unary("sum keeping dimensions", x, [](Value x) { return x * sum(x, {1}, true); },
            [](auto& x) { return x * x.sum(1, true); }),
      unary("mean", x, [](Value x) { return sq(mean(x)); }, [](auto& x) { return sq(x.mean()); }),
      unary("aten::mean", x, [](Value x) { return sq(x.builder().call1("aten::mean", {x})); },
            [](auto& x) { return sq(x.mean()); }),
      unary("mean over dimensions", strides, [](Value x) { return sq(mean(x, {0, 2})); },
            [](auto& x) { return sq(x.mean(at::IntArrayRef{0, 2})); }),
      unary("mean keeping dimensions", x, [](Value x) { return x * mean(x, {-1}, true); },
            [](auto& x) { return x * x.mean(-1, true); }),
      unary("amax", distinct, [](Value x) { return sq(amax(x, {1})); },
            [](auto& x) { return sq(x.amax(1)); }),
      unary("amax keeping dimensions", distinct, [](Value x) { return x - amax(x, {2}, true); },
            [](auto& x) { return x - x.amax(2, true); }),
      unary("softmax", strides, [](Value x) { return softmax(x, -1); },
            [](auto& x) { return at::softmax(x, -1); }),
      unary("softmax over the first dimension", x, [](Value x) { return softmax(x, 0); },
            [](auto& x) { return at::softmax(x, 0); }),
      unary("log_softmax", x, [](Value x) { return log_softmax(x, 1); },
            [](auto& x) { return at::log_softmax(x, 1); }),
      unary("sum_to", x, [](Value x) { return sq(sum_to(x, {3, 1})); },
            [](auto& x) { return sq(x.sum(at::IntArrayRef{0, 2}).unsqueeze(-1)); }),
  };
}

}  // namespace lowtide::testing::reduction
