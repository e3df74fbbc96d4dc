#include "base/at.h"
#include "slices/rule.h"

// Products of matrices: rows of a factor are rows of the product; along the summed dimension, a
// slice makes a part of the sum.
namespace lowtide::slices {
namespace {

using Found = std::optional<Cut>;

/// The sum of products, added to what is there by the kernel.
Found summed(Cut cut, std::string_view added) {
  cut.add_to = [added](const SliceCall& call, Value before) {
    return call.builder.call1(added, {before, call.tensor(0), call.tensor(1)});
  };
  return cut;
}

/// Of the factors at arguments `a` and `b`, which are matrices or stacks of as many.
Found product(const CutQuestion& q, std::size_t a, std::size_t b) {
  const auto rank = static_cast<std::int64_t>(q.made_shape().size());
  const std::int64_t row = rank - 2, column = rank - 1;
  const std::optional<Rows> in_a = q.rows(a), in_b = q.rows(b);
  if (rank == 3) {
    for (const std::optional<Rows>& rows : {in_a, in_b}) {
      if (rows && rows->dim == 0) return q.cut({a, b}, *rows);
    }
  }
  const auto over = [&](Rows summed_rows) {
    Cut cut = q.cut({a}, summed_rows.at(column), kTotal);
    cut.reads[at(q.call().position(b))] = part_of(summed_rows.at(row));
    return cut;
  };
  if (in_a && in_a->dim == column && q.argument_has(b, in_a->at(row))) return over(*in_a);
  if (in_b && in_b->dim == row && q.argument_has(a, in_b->at(column))) return over(*in_b);
  if (in_a && in_a->dim == row && !in_b) return q.cut({a}, *in_a);
  if (in_b && in_b->dim == column && !in_a) return q.cut({b}, *in_b);
  return std::nullopt;
}

Found product_alone(const CutQuestion& q, std::string_view added) {
  Found found = product(q, 0, 1);
  return found && found->made.front() == kTotal ? summed(*std::move(found), added) : found;
}

Found mm(const CutQuestion& q) { return product_alone(q, "aten::addmm"); }
Found bmm(const CutQuestion& q) { return product_alone(q, "aten::baddbmm"); }

/// (added, a, b, ...)
Found added_product(const CutQuestion& q) {
  Found found = product(q, 1, 2);
  if (!found || found->made.front().kind != Part::Kind::rows) return std::nullopt;
  const Rows made = found->made.front().rows;
  const auto lost = static_cast<std::int64_t>(q.made_shape().size() - q.shape(0).size());
  const Rows rows = made.at(made.dim - lost);
  if (q.argument_has(0, rows)) found->reads[at(q.call().position(0))] = part_of(rows);
  return found;
}

constexpr SliceRule kMatrixRules[] = {
    {"aten::mm", mm},
    {"aten::bmm", bmm},
    {"aten::addmm", added_product},
    {"aten::baddbmm", added_product},
};

}  // namespace

std::span<const SliceRule> matrix_rules() { return kMatrixRules; }

}  // namespace lowtide::slices
