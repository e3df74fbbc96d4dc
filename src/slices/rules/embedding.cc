#include "builder/functions.h"
#include "slices/rule.h"

// Lookups in a table: a row of indices makes a row; the table's gradient is a sum over them.
namespace lowtide::slices {
namespace {

using Found = std::optional<Cut>;

/// (table, indices, ...)
Found embedding(const CutQuestion& q) {
  const std::optional<Rows> rows = q.rows(1);
  return rows && !q.rows(0) ? Found(q.cut({1}, *rows)) : std::nullopt;
}

Value rows_added_to(const SliceCall& call, Value table) {
  const Value gradient = call.tensor(0), indices = call.tensor(1);
  const std::int64_t count = indices.type().elements(), width = gradient.size(-1);
  const Value places = expand(reshape(indices, {count, 1}), {count, width});
  return call.builder.call1("aten::scatter_add",
                            {table, 0, places, reshape(gradient, {count, width})});
}

/// (gradient, indices, words, padding, scaled by frequency): frequencies are those of the whole.
Found embedding_backward(const CutQuestion& q) {
  const std::optional<Rows> rows = q.rows(1);
  if (!rows || !q.argument_has(0, *rows) || q.call().boolean_or(4, false)) return std::nullopt;
  Cut cut = q.cut({0, 1}, *rows, kTotal);
  if (q.call().integer_or(3, -1) < 0) cut.add_to = rows_added_to;
  return cut;
}

constexpr SliceRule kEmbeddingRules[] = {
    {"aten::embedding", embedding},
    {"aten::embedding_dense_backward", embedding_backward},
};

}  // namespace

std::span<const SliceRule> embedding_rules() { return kEmbeddingRules; }

}  // namespace lowtide::slices
