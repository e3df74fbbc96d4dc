#include <algorithm>
#include <vector>

#include "base/at.h"
#include "builder/functions.h"
#include "slices/rule.h"

// Sums and means: over the rows, a slice makes a part of the sum. Ops that treat each line along a
// dimension apart, such as softmax.
namespace lowtide::slices {
namespace {

using Found = std::optional<Cut>;

/// Argument 1 as dimensions that are not negative; all where it is empty.
std::vector<std::int64_t> reduced_dims(const CutQuestion& q) {
  const auto rank = static_cast<std::int64_t>(q.shape(0).size());
  std::vector<std::int64_t> dims = q.call().has(1) ? q.call().integers(1) : Shape();
  for (std::int64_t& dim : dims) dim += dim < 0 ? rank : 0;
  for (std::int64_t dim = 0; dims.empty() && dim < rank; ++dim) dims.push_back(dim);
  return dims;
}

/// (input, dimensions, keeps them)
Found sum(const CutQuestion& q) {
  const std::optional<Rows> rows = q.rows(0);
  if (!rows) return std::nullopt;
  const std::vector<std::int64_t> lost = reduced_dims(q);
  if (std::ranges::count(lost, rows->dim) > 0) return q.cut({0}, *rows, kTotal);
  const bool keeps = q.call().boolean_or(2, false);
  const auto before = std::ranges::count_if(lost, [&](std::int64_t d) { return d < rows->dim; });
  return q.cut({0}, *rows, part_of(keeps ? *rows : rows->at(rows->dim - before)));
}

/// A part of a mean is the mean of the slice times the slice's share: sums of the elements
/// themselves may be too large for half precision.
Found mean(const CutQuestion& q) {
  Found found = sum(q);
  if (!found || found->made.front() != kTotal) return found;
  found->call = [size = q.size()](const SliceCall& call) {
    const double share = static_cast<double>(call.rows) / static_cast<double>(size);
    return std::vector{call.run().front() * share};
  };
  return found;
}

/// kTensors operands with the rows, and the dimension of the lines at argument kDim.
template <std::size_t kTensors, std::size_t kDim>
Found along(const CutQuestion& q) {
  const std::optional<Rows> rows = q.rows(0) ? q.rows(0) : q.rows(kTensors - 1);
  if (!rows || q.dimension(kDim, q.shape(0).size(), -1) == rows->dim) return std::nullopt;
  if (!q.argument_has(0, *rows) || !q.argument_has(kTensors - 1, *rows)) return std::nullopt;
  return q.cut({0, kTensors - 1}, *rows);
}

/// (input, dimension, index)
Found gather(const CutQuestion& q) {
  const std::optional<Rows> rows = q.rows(0);
  if (!rows || q.dimension(1, q.shape(0).size()) == rows->dim) return std::nullopt;
  return q.argument_has(2, *rows) ? Found(q.cut({0, 2}, *rows)) : std::nullopt;
}

constexpr SliceRule kReductionRules[] = {
    {"aten::sum.dim_IntList", sum},
    {"aten::mean.dim", mean},
    {"aten::_softmax", along<1, 1>},
    {"aten::_log_softmax", along<1, 1>},
    {"aten::_softmax_backward_data", along<2, 2>},
    {"aten::_log_softmax_backward_data", along<2, 2>},
    {"aten::gather", gather},
};

}  // namespace

std::span<const SliceRule> reduction_rules() { return kReductionRules; }

}  // namespace lowtide::slices
