#pragma once

#include "autodiff/rule_case.h"
#include "builder/functions.h"

namespace lowtide::testing::pointwise {

/// The broadcasts that a pair of operands can need.
inline std::vector<RuleCase> broadcasts(const std::string& name, Draw draw,
                                 std::function<Value(Value, Value)> build,
                                 std::function<at::Tensor(const at::Tensor&, const at::Tensor&)>
                                     torch) {
  return {binary(name, {{3, 5}, draw}, {{3, 5}, draw}, build, torch),
          binary(name + " row", {{3, 5}, draw}, {{5}, draw}, build, torch),
          binary(name + " column", {{3, 1}, draw}, {{2, 3, 5}, draw}, build, torch),
          binary(name + " scalar", {{}, draw}, {{3, 5}, draw}, build, torch),
          binary(name + " strides", transposed({3, 5}, draw), {{3, 5}, draw}, build, torch)};
}

inline void append(std::vector<RuleCase>& cases, std::vector<RuleCase> more) {
  for (RuleCase& rule : more) cases.push_back(std::move(rule));
}

inline Value call(Value x, std::string_view type, std::vector<CallArg> more) {
  std::vector<CallArg> args = {x};
  args.insert(args.end(), more.begin(), more.end());
  return x.builder().call1(type, args);
}

inline std::vector<RuleCase> operators() {
  std::vector<RuleCase> cases;
  append(cases, broadcasts("add", Draw::normal, [](Value a, Value b) { return a + b; },
                           [](auto& a, auto& b) { return a + b; }));
  append(cases, broadcasts("subtract", Draw::normal, [](Value a, Value b) { return a - b; },
                           [](auto& a, auto& b) { return a - b; }));
  append(cases, broadcasts("multiply", Draw::normal, [](Value a, Value b) { return a * b; },
                           [](auto& a, auto& b) { return a * b; }));
  append(cases, broadcasts("divide", Draw::positive, [](Value a, Value b) { return a / b; },
                           [](auto& a, auto& b) { return a / b; }));
  append(cases, broadcasts("maximum", Draw::normal, maximum,
                           [](auto& a, auto& b) { return at::maximum(a, b); }));
  append(cases, broadcasts("minimum", Draw::normal, minimum,
                           [](auto& a, auto& b) { return at::minimum(a, b); }));
  cases.push_back(binary("maximum of equals", {{3, 5}}, {{3, 5}},
                         [](Value a, Value) { return maximum(a, a); },
                         [](auto& a, auto&) { return at::maximum(a, a); }));
  cases.push_back(binary("weighted sum", {{3, 5}}, {{5}},
                         [](Value a, Value b) { return call(a, "aten::add.Tensor", {b, 0.3}); },
                         [](auto& a, auto& b) { return at::add(a, b, 0.3); }));
  cases.push_back(binary("weighted difference", {{3, 5}}, {{5}},
                         [](Value a, Value b) { return call(a, "aten::sub.Tensor", {b, 2}); },
                         [](auto& a, auto& b) { return at::sub(a, b, 2); }));
  cases.push_back(unary("square by itself", {{3, 5}}, [](Value x) { return x * x; },
                        [](auto& x) { return x * x; }));
  return cases;
}

inline std::vector<RuleCase> with_numbers() {
  const Operand x = {{3, 5}}, away = {{3, 5}, Draw::positive};
  return {
      unary("x + 2", x, [](Value x) { return x + 2; }, [](auto& x) { return x + 2; }),
      unary("x - 2", x, [](Value x) { return x - 2; }, [](auto& x) { return x - 2; }),
      unary("x * 0.3", x, [](Value x) { return x * 0.3; }, [](auto& x) { return x * 0.3; }),
      unary("x / 3", x, [](Value x) { return x / 3; }, [](auto& x) { return x / 3; }),
      unary("2 + x", x, [](Value x) { return 2 + x; }, [](auto& x) { return 2 + x; }),
      unary("2 - x", x, [](Value x) { return 2 - x; }, [](auto& x) { return 2 - x; }),
      unary("rsub", x, [](Value x) { return call(x, "aten::rsub.Scalar", {2, 0.5}); },
            [](auto& x) { return at::rsub(x, 2, 0.5); }),
      unary("2 * x", x, [](Value x) { return 2 * x; }, [](auto& x) { return 2 * x; }),
      unary("2 / x", away, [](Value x) { return 2 / x; },
            [](auto& x) { return x.reciprocal() * 2; }),
      unary("x^3", x, [](Value x) { return pow(x, 3); }, [](auto& x) { return at::pow(x, 3); }),
      unary("x^2", x, [](Value x) { return pow(x, 2); }, [](auto& x) { return at::pow(x, 2); }),
      unary("x^1", x, [](Value x) { return pow(x, 1); }, [](auto& x) { return at::pow(x, 1); }),
      unary("x^0", x, [](Value x) { return pow(x, 0); }, [](auto& x) { return at::pow(x, 0); }),
      unary("x^-1.5", away, [](Value x) { return pow(x, -1.5); },
            [](auto& x) { return at::pow(x, -1.5); }),
  };
}

inline std::vector<RuleCase> elementary() {
  const Operand x = transposed({3, 5}), away = {{2, 7}, Draw::positive};
  const Operand kinked = {{5, 3}, Draw::spread};
  return {
      unary("negate", x, [](Value x) { return -x; }, [](auto& x) { return -x; }),
      unary("exp", x, [](Value x) { return exp(x); }, [](auto& x) { return at::exp(x); }),
      unary("log", away, [](Value x) { return log(x); }, [](auto& x) { return at::log(x); }),
      unary("log1p", away, [](Value x) { return call(x, "aten::log1p", {}); },
            [](auto& x) { return at::log1p(x); }),
      unary("erf", x, [](Value x) { return call(x, "aten::erf", {}); },
            [](auto& x) { return at::erf(x); }),
      unary("sin", x, [](Value x) { return sin(x); }, [](auto& x) { return at::sin(x); }),
      unary("cos", x, [](Value x) { return cos(x); }, [](auto& x) { return at::cos(x); }),
      unary("sqrt", away, [](Value x) { return sqrt(x); }, [](auto& x) { return at::sqrt(x); }),
      unary("rsqrt", away, [](Value x) { return rsqrt(x); }, [](auto& x) { return at::rsqrt(x); }),
      unary("abs", kinked, [](Value x) { return abs(x); }, [](auto& x) { return at::abs(x); }),
      unary("sign", kinked, [](Value x) { return sign(x) * x; },
            [](auto& x) { return at::sign(x) * x; }),
      unary("sgn", kinked, [](Value x) { return call(x, "aten::sgn", {}) * x; },
            [](auto& x) { return at::sgn(x) * x; }),
      unary("reciprocal", away, [](Value x) { return reciprocal(x); },
            [](auto& x) { return at::reciprocal(x); }),
      unary("clone", x, [](Value x) { return clone(x); }, [](auto& x) { return x.clone(); }),
      unary("copy to f64", x, [](Value x) { return to(x, DType::f64); },
            [](auto& x) { return x.to(at::kDouble); }),
      unary("zeros and ones", x,
            [](Value x) {
              return x * call(x, "aten::ones_like", {}) + call(x, "aten::zeros_like", {});
            },
            [](auto& x) { return x * at::ones_like(x) + at::zeros_like(x); }),
      unary("compared", kinked, [](Value x) { return x * to(gt(x, 0.1), x.dtype()); },
            [](auto& x) { return x * (x > 0.1).to(x.scalar_type()); }),
  };
}

inline std::vector<RuleCase> with_masks() {
  return {
      {.name = "where",
       .operands = {{{3, 5}, Draw::mask}, {{3, 5}}, {{5}}},
       .build = [](const Values& x) { return Values{where(x[0], x[1], x[2])}; },
       .torch = [](const Tensors& x) { return Tensors{at::where(x[0], x[1], x[2])}; }},
      {.name = "where over a broadcast condition",
       .operands = {{{5}, Draw::mask}, {{3, 1}}, {{3, 5}}},
       .build = [](const Values& x) { return Values{where(x[0], x[1], x[2])}; },
       .torch = [](const Tensors& x) { return Tensors{at::where(x[0], x[1], x[2])}; }},
      binary("masked_fill", {{2, 3, 5}}, {{3, 5}, Draw::mask},
             [](Value x, Value mask) { return masked_fill(x, mask, -3); },
             [](auto& x, auto& mask) { return x.masked_fill(mask, -3); }),
      unary("dropout", {{4, 6}}, [](Value x) { return dropout(x, 0.4); },
            [](auto& x) { return at::dropout(x, 0.4, true); }),
  };
}

inline std::vector<RuleCase> fused() {
  const std::vector<Operand> operands = {{{3, 5}}, {{3, 1}}, {{5}, Draw::positive}};
  return {{.name = "addcmul",
           .operands = operands,
           .build =
               [](const Values& x) {
                 return Values{call(x[0], "aten::addcmul", {x[1], x[2], 0.7})};
               },
           .torch = [](const Tensors& x) { return Tensors{at::addcmul(x[0], x[1], x[2], 0.7)}; }},
          {.name = "addcdiv",
           .operands = operands,
           .build =
               [](const Values& x) {
                 return Values{call(x[0], "aten::addcdiv", {x[1], x[2], 0.7})};
               },
           .torch = [](const Tensors& x) { return Tensors{at::addcdiv(x[0], x[1], x[2], 0.7)}; }}};
}

inline std::vector<RuleCase> cases() {
  std::vector<RuleCase> cases = operators();
  append(cases, with_numbers());
  append(cases, elementary());
  append(cases, with_masks());
  append(cases, fused());
  return cases;
}

}  // namespace lowtide::testing::pointwise
