#include <limits>

#include "autodiff/rule.h"
#include "builder/apply.h"
#include "builder/functions.h"

// Views: the adjoint of a view goes back to the tensor that it views.
namespace lowtide::autodiff {
namespace {

using Result = std::vector<InputAdjoint>;

Result same(const RuleContext& c) {
  return Adjoints(c).add(0, [&] { return c.adjoint(); });
}

Result reshaped(const RuleContext& c) {
  return Adjoints(c).add(0, [&] { return reshape(c.adjoint(), c.arg(0).shape()); });
}

Result transposed_matrix(const RuleContext& c) {
  return Adjoints(c).add(0, [&] { return apply("aten::t", {c.adjoint()}); });
}

Result transposed(const RuleContext& c) {
  return Adjoints(c).add(0,
                         [&] { return transpose(c.adjoint(), c.integer(1, 0), c.integer(2, 0)); });
}

Result permuted(const RuleContext& c) {
  const std::vector<std::int64_t> dims = c.integers(1);
  const auto rank = static_cast<std::int64_t>(dims.size());
  std::vector<std::int64_t> inverse(dims.size());
  for (std::int64_t i = 0; i < rank; ++i) {
    const std::int64_t dim = dims[static_cast<std::size_t>(i)];
    inverse[static_cast<std::size_t>(dim < 0 ? dim + rank : dim)] = i;
  }
  return Adjoints(c).add(0, [&] { return permute(c.adjoint(), inverse); });
}

Result unsqueezed(const RuleContext& c) {
  return Adjoints(c).add(0, [&] { return squeeze(c.adjoint(), c.integer(1, 0)); });
}

Result squeezed(const RuleContext& c) {
  const bool removed = c.output().dim() < c.arg(0).dim();
  return Adjoints(c).add(
      0, [&] { return removed ? unsqueeze(c.adjoint(), c.integer(1, 0)) : c.adjoint(); });
}

Result sliced(const RuleContext& c) {
  return Adjoints(c).add(0, [&] {
    const std::int64_t end = c.integer(3, std::numeric_limits<std::int64_t>::max());
    return apply("aten::slice_backward", {c.adjoint(), c.arg(0).shape(), c.integer(1, 0),
                                          c.integer(2, 0), end, c.integer(4, 1)});
  });
}

Result slice_backward(const RuleContext& c) {
  return Adjoints(c).add(0, [&] {
    return apply("aten::slice.Tensor", {c.adjoint(), c.pass(2), c.pass(3), c.pass(4), c.pass(5)});
  });
}

Result selected(const RuleContext& c) {
  return Adjoints(c).add(0, [&] {
    return apply("aten::select_backward", {c.adjoint(), c.arg(0).shape(), c.pass(1), c.pass(2)});
  });
}

Result select_backward(const RuleContext& c) {
  return Adjoints(c).add(
      0, [&] { return apply("aten::select.int", {c.adjoint(), c.pass(2), c.pass(3)}); });
}

std::vector<Value> all_adjoints(const RuleContext& c) {
  std::vector<Value> parts;
  for (std::size_t k = 0; k < c.outputs.size(); ++k) parts.push_back(c.adjoint_or_zeros(k));
  return parts;
}

Result split_rule(const RuleContext& c) {
  return Adjoints(c).add(0, [&] { return cat(all_adjoints(c), c.integer(2, 0)); });
}

Result unbound(const RuleContext& c) {
  return Adjoints(c).add(0, [&] { return stack(all_adjoints(c), c.integer(1, 0)); });
}

constexpr GradientRule kViewRules[] = {
    {"aten::alias", same},
    {"aten::detach", zero_rule},
    {"aten::view", reshaped},
    {"aten::t", transposed_matrix},
    {"aten::transpose.int", transposed},
    {"aten::permute", permuted},
    {"aten::unsqueeze", unsqueezed},
    {"aten::squeeze.dim", squeezed},
    {"aten::expand", same},
    {"aten::slice.Tensor", sliced},
    {"aten::slice_backward", slice_backward},
    {"aten::select.int", selected},
    {"aten::select_backward", select_backward},
    {"aten::split.Tensor", split_rule},
    {"aten::split_with_sizes", split_rule},
    {"aten::unbind.int", unbound},
};

}  // namespace

std::span<const GradientRule> view_rules() { return kViewRules; }

}  // namespace lowtide::autodiff
