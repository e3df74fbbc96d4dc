#pragma once

#include "autodiff/rule_case.h"
#include "builder/functions.h"

namespace lowtide::testing::loss {

enum Reduction { kNone = 0, kMean = 1, kSum = 2 };

/// LibTorch also differentiates its loss with respect to the target.
inline RuleCase squared_error(const std::string& name, Reduction reduction) {
  return binary(name, {{3, 5}}, {{3, 5}},
                [=](Value x, Value t) {
                  return x.builder().call1("aten::mse_loss", {x, t, int{reduction}});
                },
                [=](auto& x, auto& t) { return at::mse_loss(x, t, reduction); });
}

inline std::vector<RuleCase> cases() {
  RuleCase logistic =
      binary("binary_cross_entropy_with_logits", {{3, 5}}, {{3, 5}, Draw::positive},
             binary_cross_entropy_with_logits,
             [](auto& x, auto& t) { return at::binary_cross_entropy_with_logits(x, t); });
  logistic.bitwise = false;  // written in simpler ops
  return {
      binary("cross_entropy", {{6, 5}}, index({6}, 5), cross_entropy,
             [](auto& x, auto& t) { return at::cross_entropy_loss(x, t); }),
      binary("cross_entropy of images", {{2, 4, 3, 5}}, index({2, 3, 5}, 4), cross_entropy,
             [](auto& x, auto& t) { return at::cross_entropy_loss(x, t); }),
      binary("nll_loss", {{6, 5}}, index({6}, 5),
             [](Value x, Value t) { return nll_loss(x * x, t); },
             [](auto& x, auto& t) { return at::nll_loss(x * x, t); }),
      binary("mse_loss", {{3, 5}}, {{3, 5}}, mse_loss,
             [](auto& x, auto& t) { return at::mse_loss(x, t); }),
      squared_error("mse_loss of elements", kNone),
      squared_error("mse_loss summed", kSum),
      logistic,
  };
}

}  // namespace lowtide::testing::loss
