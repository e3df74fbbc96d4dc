#include <algorithm>

#include "base/at.h"
#include "slices/rule.h"

// Ops whose results at an index depend on the inputs at that index alone, broadcast.
namespace lowtide::slices {
namespace {

/// Those that are not written over an operand.
constexpr std::string_view kOthers[] = {"aten::clone", "aten::_to_copy", "aten::masked_fill.Scalar",
                                        "aten::zeros_like", "aten::ones_like"};

/// Those rows, of a result with so many dimensions, in a tensor that broadcasts to it.
Rows within(const CutQuestion& q, std::size_t position, Rows rows, std::int64_t rank) {
  return rows.at(rows.dim - rank + static_cast<std::int64_t>(q.input_shape(position).size()));
}

/// Where the rows lie in the result; nothing if inputs have none, or have them in several places.
std::optional<Rows> rows_of_result(const CutQuestion& q, std::int64_t rank) {
  std::optional<Rows> found;
  for (std::size_t position = 0; position < q.inputs(); ++position) {
    const std::optional<Rows> rows = q.input_rows(position);
    if (!rows) continue;
    const auto own = static_cast<std::int64_t>(q.input_shape(position).size());
    const Rows aligned = rows->at(rows->dim + rank - own);
    if (found && *found != aligned) return std::nullopt;
    found = aligned;
  }
  return found;
}

}  // namespace

bool is_elementwise(std::string_view type) {
  const ops::OpDef* def = ops::find_op(type);
  return (def != nullptr && def->pointwise) || std::ranges::count(kOthers, type) > 0;
}

std::optional<Cut> cut_elementwise(const CutQuestion& q) {
  const auto rank = static_cast<std::int64_t>(q.made_shape().size());
  const std::optional<Rows> rows = rows_of_result(q, rank);
  if (!rows) return std::nullopt;
  Cut cut = q.cut({}, *rows);
  for (std::size_t position = 0; position < q.inputs(); ++position) {
    const Rows own = within(q, position, *rows, rank);
    if (q.has(position, own)) cut.reads[position] = part_of(own);
  }
  return cut;
}

}  // namespace lowtide::slices
