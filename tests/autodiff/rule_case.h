#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <string>
#include <vector>

#include "builder/functions.h"

namespace lowtide::testing {

using Values = std::vector<Value>;
using Tensors = std::vector<at::Tensor>;

/// The contents of an operand's tensor.
enum class Draw {
  normal,
  positive,  ///< within [0.5, 1.5)
  spread,    ///< all different, none near 0: away from the kinks of relu or max
  index,     ///< whole numbers below Operand::count
  mask       ///< booleans
};

struct Operand {
  Shape shape;
  Draw draw = Draw::normal;
  bool transposed = false;  ///< lies in memory with its last two dimensions swapped
  std::int64_t count = 0;

  bool floating() const { return draw != Draw::index && draw != Draw::mask; }
};

inline Operand transposed(Shape shape, Draw draw = Draw::normal) {
  return {std::move(shape), draw, true};
}

inline Operand index(Shape shape, std::int64_t count) {
  return {.shape = std::move(shape), .draw = Draw::index, .count = count};
}

/// A function written twice, in Lowtide and in LibTorch, whose derivatives must agree.
struct RuleCase {
  std::string name;
  std::vector<Operand> operands;
  std::function<Values(const Values&)> build;
  std::function<Tensors(const Tensors&)> torch;
  /// First derivatives in f32 equal those of autograd to the last bit.
  bool bitwise = true;
  /// Whether LibTorch has the second derivative (finite differences check it in any case).
  bool torch_second = true;
  /// Whether Lowtide has it.
  bool second = true;
};

/// y = f(x) for one tensor.
inline RuleCase unary(std::string name, Operand operand, std::function<Value(Value)> build,
                      std::function<at::Tensor(const at::Tensor&)> torch) {
  return {.name = std::move(name),
          .operands = {std::move(operand)},
          .build = [build](const Values& x) { return Values{build(x[0])}; },
          .torch = [torch](const Tensors& x) { return Tensors{torch(x[0])}; }};
}

/// y = f(a, b)
inline RuleCase binary(std::string name, Operand a, Operand b,
                       std::function<Value(Value, Value)> build,
                       std::function<at::Tensor(const at::Tensor&, const at::Tensor&)> torch) {
  return {.name = std::move(name),
          .operands = {std::move(a), std::move(b)},
          .build = [build](const Values& x) { return Values{build(x[0], x[1])}; },
          .torch = [torch](const Tensors& x) { return Tensors{torch(x[0], x[1])}; }};
}

/// Squares: gives a linear op a second derivative.
inline Value sq(Value x) { return x * x; }
inline at::Tensor sq(const at::Tensor& x) { return x * x; }

}  // namespace lowtide::testing
