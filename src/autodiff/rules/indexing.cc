#include "autodiff/rule.h"
#include "base/error.h"
#include "builder/apply.h"
#include "builder/functions.h"

// Joining, padding and looking up.
namespace lowtide::autodiff {
namespace {

using Result = std::vector<InputAdjoint>;

/// cat(tensors, dim): each part gets its slice.
Result joined(const RuleContext& c) {
  const std::int64_t dim = c.integer(1, 0);
  Result result;
  std::int64_t start = 0;
  for (int position : c.list(0)) {
    const auto p = static_cast<std::size_t>(position);
    const std::int64_t end = start + c.inputs[p].size(dim);
    if (c.wanted[p]) result.push_back({position, slice(c.adjoint(), dim, start, end)});
    start = end;
  }
  return result;
}

/// stack(tensors, dim)
Result stacked(const RuleContext& c) {
  const std::int64_t dim = c.integer(1, 0);
  Result result;
  std::int64_t index = 0;
  for (int position : c.list(0)) {
    if (c.wanted[static_cast<std::size_t>(position)]) {
      result.push_back({position, select(c.adjoint(), dim, index)});
    }
    ++index;
  }
  return result;
}

/// embedding(weight, indices, padding_idx, scale_grad_by_freq, sparse)
Result embedded(const RuleContext& c) {
  return Adjoints(c).add(0, [&] {
    return apply("aten::embedding_dense_backward",
                 {c.adjoint(), c.arg(1), c.arg(0).size(0), c.integer(2, -1), c.flag(3, false)});
  });
}

/// embedding_dense_backward(grad_output, indices, num_weights, padding_idx, scale_grad_by_freq)
Result embedding_backward(const RuleContext& c) {
  if (c.integer(3, -1) >= 0 || c.flag(4, false)) {
    throw InputError("aten::embedding_dense_backward has no gradient rule with padding_idx or "
                     "scale_grad_by_freq: use an embedding without them");
  }
  return Adjoints(c).add(0, [&] { return embedding(c.adjoint(), c.arg(1)); });
}

/// constant_pad_nd(self, pad, value)
Result padded(const RuleContext& c) {
  std::vector<std::int64_t> cropping = c.integers(1);
  for (std::int64_t& amount : cropping) amount = -amount;
  return Adjoints(c).add(0, [&] { return pad(c.adjoint(), cropping); });
}

/// gather(self, dim, index)
Result gathered(const RuleContext& c) {
  return Adjoints(c).add(0, [&] {
    const Value zeros = full(c.builder, c.arg(0).shape(), 0, c.arg(0).dtype());
    return apply("aten::scatter_add", {zeros, c.pass(1), c.arg(2), c.adjoint()});
  });
}

/// scatter_add(self, dim, index, src)
Result scattered(const RuleContext& c) {
  return Adjoints(c).add(0, [&] { return c.adjoint(); }).add(3, [&] {
    return apply("aten::gather", {c.adjoint(), c.pass(1), c.arg(2)});
  });
}

constexpr GradientRule kIndexingRules[] = {
    {"aten::cat", joined},
    {"aten::stack", stacked},
    {"aten::embedding", embedded},
    {"aten::embedding_dense_backward", embedding_backward},
    {"aten::constant_pad_nd", padded},
    {"aten::gather", gathered},
    {"aten::scatter_add", scattered},
};

}  // namespace

std::span<const GradientRule> indexing_rules() { return kIndexingRules; }

}  // namespace lowtide::autodiff
