#include "base/at.h"
#include "slices/rule.h"

// Normalizations: of each row apart, but for batch norm in training, which mixes the rows
// (slices/batch_norm.h).
namespace lowtide::slices {
namespace {

using Found = std::optional<Cut>;

/// Where the rows of a tensor lie whose last dimensions, as many as argument `normalized` lists,
/// are normalized.
std::optional<Rows> apart(const CutQuestion& q, std::size_t source, std::size_t normalized) {
  const std::optional<Rows> rows = q.rows(source);
  const auto outer = q.shape(source).size() - q.call().integers(normalized).size();
  return rows && at(rows->dim) < outer ? rows : std::nullopt;
}

/// (input, normalized shape, ...) -> (output, mean, inverse deviation)
Found layer_norm(const CutQuestion& q) {
  const std::optional<Rows> rows = apart(q, 0, 1);
  return rows ? Found(q.cut({0}, *rows)) : std::nullopt;
}

/// The first result has rows if it is wanted, others are sums; `mask`: which are wanted.
void make_gradients(Cut& cut, const std::vector<std::int64_t>& mask, Rows rows) {
  if (mask.at(0) != 0) cut.made.front() = part_of(rows);
}

/// (gradient, input, normalized shape, mean, inverse deviation, weight, bias, mask)
Found layer_norm_backward(const CutQuestion& q) {
  const std::optional<Rows> rows = apart(q, 1, 2);
  if (!rows || !q.argument_has(0, *rows)) return std::nullopt;
  Cut cut = q.cut({0, 1, 3, 4}, *rows, kTotal);
  make_gradients(cut, q.call().integers(7), *rows);
  return cut;
}

/// (input, weight, bias, running mean, running variance, in training, ...)
Found batch_norm(const CutQuestion& q) {
  if (q.rows(0) != Rows{} || !q.call().boolean(5)) return std::nullopt;
  Cut cut = q.cut({0}, Rows{}, kWhole);
  cut.made.front() = part_of(Rows{});
  cut.in_slices = false;
  return cut;
}

/// (gradient, input, weight, ..., in training, epsilon, mask)
Found batch_norm_backward(const CutQuestion& q) {
  if (q.rows(1) != Rows{}) return std::nullopt;
  const bool in_training = q.call().boolean(7);
  Cut cut = q.cut({0, 1}, Rows{}, in_training ? kWhole : kTotal);
  make_gradients(cut, q.call().integers(9), Rows{});
  cut.in_slices = !in_training;
  return cut;
}

constexpr SliceRule kNormalizationRules[] = {
    {"aten::native_layer_norm", layer_norm},
    {"aten::native_layer_norm_backward", layer_norm_backward},
    {"aten::native_batch_norm", batch_norm},
    {"aten::native_batch_norm_backward", batch_norm_backward},
};

}  // namespace

std::span<const SliceRule> normalization_rules() { return kNormalizationRules; }

}  // namespace lowtide::slices
