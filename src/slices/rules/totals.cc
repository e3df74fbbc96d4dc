#include "graph/dtype.h"
#include "slices/rule.h"

// Linear ops on parts of sums: what they make is a part of a sum too.
namespace lowtide::slices {
namespace {

using Found = std::optional<Cut>;

Found of_all(const CutQuestion& q) {
  Cut cut{std::vector<Part>(q.inputs(), kTotal), {kTotal}};
  for (std::size_t position = 0; position < q.inputs(); ++position) {
    if (!q.is_total(position)) return std::nullopt;
  }
  return cut;
}

/// A cast between floating-point types.
Found cast(const CutQuestion& q) {
  return is_floating(q.call().dtype(1, DType::i64)) ? of_all(q) : std::nullopt;
}

constexpr SliceRule kTotalRules[] = {
    {"aten::t", of_all},          {"aten::view", of_all},
    {"aten::permute", of_all},    {"aten::transpose.int", of_all},
    {"aten::mul.Scalar", of_all}, {"aten::neg", of_all},
    {"aten::add.Tensor", of_all}, {"aten::sub.Tensor", of_all},
    {"aten::_to_copy", cast},
};

}  // namespace

std::span<const SliceRule> total_rules() { return kTotalRules; }

}  // namespace lowtide::slices
