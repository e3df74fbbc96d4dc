#include <algorithm>

#include "autodiff/rule.h"
#include "builder/apply.h"
#include "builder/functions.h"

// Sums, means, maxima and the softmax family.
namespace lowtide::autodiff {
namespace {

using Result = std::vector<InputAdjoint>;

/// The dimensions of argument 1, counted from the front, ascending; all when it lists none.
std::vector<std::int64_t> reduced_dims(const RuleContext& c) {
  const std::int64_t rank = c.arg(0).dim();
  std::vector<std::int64_t> dims = c.integers(1);
  if (dims.empty()) {
    for (std::int64_t dim = 0; dim < rank; ++dim) dims.push_back(dim);
  }
  for (std::int64_t& dim : dims) dim = dim < 0 ? dim + rank : dim;
  std::sort(dims.begin(), dims.end());
  return dims;
}

/// A result of the reduction, with the reduced dimensions as size 1.
Value with_reduced_dims(const RuleContext& c, Value reduced) {
  if (c.flag(2, false) || c.arg(0).dim() == 0) return reduced;
  for (std::int64_t dim : reduced_dims(c)) reduced = unsqueeze(reduced, dim);
  return reduced;
}

double reduced_count(const RuleContext& c) {
  return static_cast<double>(c.arg(0).type().elements()) /
         static_cast<double>(c.output().type().elements());
}

Result sum_dims(const RuleContext& c) {
  return Adjoints(c).add(
      0, [&] { return expand(with_reduced_dims(c, c.adjoint()), c.arg(0).shape()); });
}

Result sum_all(const RuleContext& c) {
  return Adjoints(c).add(0, [&] { return expand(c.adjoint(), c.arg(0).shape()); });
}

// LibTorch divides after the expansion; dividing before gives the same bits with less memory.
Result mean_dims(const RuleContext& c) {
  return Adjoints(c).add(0, [&] {
    return expand(with_reduced_dims(c, c.adjoint() / reduced_count(c)), c.arg(0).shape());
  });
}

Result mean_all(const RuleContext& c) {
  return Adjoints(c).add(0,
                         [&] { return expand(c.adjoint() / reduced_count(c), c.arg(0).shape()); });
}

/// Equal maxima share the adjoint.
Result maximum_dims(const RuleContext& c) {
  return Adjoints(c).add(0, [&] {
    const Value x = c.arg(0);
    const Value winners = to(eq(with_reduced_dims(c, c.output()), x), x.dtype());
    const Value count = sum(winners, reduced_dims(c), true);
    return with_reduced_dims(c, c.adjoint()) * winners / count;
  });
}

Result softmax_rule(const RuleContext& c) {
  return Adjoints(c).add(0, [&] {
    return apply("aten::_softmax_backward_data",
                 {c.adjoint(), c.output(), c.pass(1), c.arg(0).dtype()});
  });
}

/// y * (g - sum(g * y)), of g and y
std::vector<Value> softmax_backward_primitives(const RuleContext& c) {
  const Value g = c.arg(0), y = c.arg(1);
  return {y * (g - sum(g * y, {c.integer(2, 0)}, true))};
}

Result softmax_backward(const RuleContext& c) {
  return differentiate_as(c, softmax_backward_primitives);
}

Result log_softmax_rule(const RuleContext& c) {
  return Adjoints(c).add(0, [&] {
    return apply("aten::_log_softmax_backward_data",
                 {c.adjoint(), c.output(), c.pass(1), c.arg(0).dtype()});
  });
}

/// g - exp(y) * sum(g), of g and y
std::vector<Value> log_softmax_backward_primitives(const RuleContext& c) {
  const Value g = c.arg(0);
  return {g - exp(c.arg(1)) * sum(g, {c.integer(2, 0)}, true)};
}

Result log_softmax_backward(const RuleContext& c) {
  return differentiate_as(c, log_softmax_backward_primitives);
}

constexpr GradientRule kReductionRules[] = {
    {"aten::sum", sum_all},
    {"aten::sum.dim_IntList", sum_dims},
    {"aten::mean", mean_all},
    {"aten::mean.dim", mean_dims},
    {"aten::amax", maximum_dims},
    {"aten::_softmax", softmax_rule},
    {"aten::_softmax_backward_data", softmax_backward},
    {"aten::_log_softmax", log_softmax_rule},
    {"aten::_log_softmax_backward_data", log_softmax_backward},
};

}  // namespace

std::span<const GradientRule> reduction_rules() { return kReductionRules; }

}  // namespace lowtide::autodiff
