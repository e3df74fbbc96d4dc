#pragma once

#include "autodiff/rule_case.h"
#include "builder/functions.h"

namespace lowtide::testing::activation {

inline std::vector<RuleCase> cases() {
  const Operand x = transposed({3, 5}), kinked = {{5, 3}, Draw::spread};
  return {
      unary("tanh", x, [](Value x) { return tanh(x); }, [](auto& x) { return at::tanh(x); }),
      unary("sigmoid", x, [](Value x) { return sigmoid(x); },
            [](auto& x) { return at::sigmoid(x); }),
      unary("relu", kinked, [](Value x) { return relu(x); }, [](auto& x) { return at::relu(x); }),
      unary("hardtanh", kinked, [](Value x) { return hardtanh(x, -0.9, 1.1); },
            [](auto& x) { return at::hardtanh(x, -0.9, 1.1); }),
      unary("relu6", {{7, 9}, Draw::spread}, [](Value x) { return relu6(x); },
            [](auto& x) { return at::relu6(x); }),
      unary("silu", x, [](Value x) { return silu(x); }, [](auto& x) { return at::silu(x); }),
      unary("gelu", x, [](Value x) { return gelu(x); }, [](auto& x) { return at::gelu(x); }),
      unary("gelu by tanh", x, [](Value x) { return gelu(x, true); },
            [](auto& x) { return at::gelu(x, "tanh"); }),
  };
}

}  // namespace lowtide::testing::activation
