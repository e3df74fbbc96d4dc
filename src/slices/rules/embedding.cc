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

/// (gradient, indices, words, padding, scaled by frequency): frequencies are those of the whole.
Found embedding_backward(const CutQuestion& q) {
  const std::optional<Rows> rows = q.rows(1);
  if (!rows || !q.argument_has(0, *rows) || q.call().boolean_or(4, false)) return std::nullopt;
  return q.cut({0, 1}, *rows, kTotal);
}

constexpr SliceRule kEmbeddingRules[] = {
    {"aten::embedding", embedding},
    {"aten::embedding_dense_backward", embedding_backward},
};

}  // namespace

std::span<const SliceRule> embedding_rules() { return kEmbeddingRules; }

}  // namespace lowtide::slices
