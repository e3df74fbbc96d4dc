#include <algorithm>
#include <numeric>

#include "base/at.h"
#include "builder/functions.h"
#include "ops/shapes.h"
#include "slices/rule.h"

// Ops that lay the same elements out otherwise, pick some of them, or join them.
namespace lowtide::slices {
namespace {

using Found = std::optional<Cut>;

/// The op with argument `i` for the rows of a slice: a list of sizes in which `rows` lie.
auto with_sizes(std::size_t i, Shape sizes, Rows rows) {
  return [i, sizes = std::move(sizes), rows](SliceCall call) {
    call.args.at(i) = resized(sizes, rows, call.rows);
    return call.run();
  };
}

/// Where the rows lie in a view: behind as many elements as before.
std::optional<Rows> rows_of_view(const Shape& source, Rows rows, const Shape& target,
                                 std::int64_t size) {
  const auto behind = [](const Shape& shape, std::size_t dim) {
    return std::accumulate(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(dim),
                           std::int64_t{1}, std::multiplies<>());
  };
  const std::int64_t before = behind(source, at(rows.dim));
  for (std::size_t dim = 0; dim < target.size(); ++dim) {
    if (behind(target, dim) != before || target[dim] % size != 0 || target[dim] == 0) continue;
    return Rows{static_cast<std::int64_t>(dim), target[dim] / size};
  }
  return std::nullopt;
}

/// Elements of a slice may lie with gaps where those of the whole do not.
Found view(const CutQuestion& q) {
  const std::optional<Rows> rows = q.rows(0);
  if (!rows) return std::nullopt;
  const auto made = rows_of_view(q.shape(0), *rows, q.made_shape(), q.size());
  if (!made) return std::nullopt;
  Cut cut = q.cut({0}, *rows, part_of(*made));
  cut.call = [sizes = q.made_shape(), made = *made](const SliceCall& call) {
    return std::vector{reshape(call.tensor(0), resized(sizes, made, call.rows))};
  };
  return cut;
}

/// A tensor that is the same for all rows, as the gradient of a mean, gets rows here.
Found expanded_to_rows(const CutQuestion& q) {
  const Shape &sizes = q.made_shape(), &source = q.shape(0);
  const bool is_repeated =
      !sizes.empty() && (sizes.size() > source.size() || (source[0] == 1 && sizes[0] > 1));
  if (!is_repeated || sizes[0] == 0 || sizes[0] % q.size() != 0) return std::nullopt;
  const Rows made{0, sizes[0] / q.size()};
  Cut cut = q.cut({}, made);
  cut.call = with_sizes(1, sizes, made);
  return cut;
}

Found expand(const CutQuestion& q) {
  const std::optional<Rows> rows = q.rows(0);
  if (!rows) return expanded_to_rows(q);
  const auto added = static_cast<std::int64_t>(q.made_shape().size() - q.shape(0).size());
  const Rows made = rows->at(rows->dim + added);
  Cut cut = q.cut({0}, *rows, part_of(made));
  cut.call = with_sizes(1, q.made_shape(), made);
  return cut;
}

/// A new tensor of one value.
Found full(const CutQuestion& q) {
  const Shape& sizes = q.made_shape();
  if (sizes.empty() || sizes[0] != q.size()) return std::nullopt;
  Cut cut = q.cut({}, Rows{});
  cut.call = with_sizes(0, sizes, Rows{});
  return cut;
}

/// Dimension k of the result is dimension order[k] of the input.
Found permuted(const CutQuestion& q, const Shape& order) {
  const std::optional<Rows> rows = q.rows(0);
  if (!rows) return std::nullopt;
  const auto place = std::ranges::find(order, rows->dim) - order.begin();
  return q.cut({0}, *rows, part_of(rows->at(place)));
}

Shape dims_of(const CutQuestion& q) {
  Shape dims(q.shape(0).size());
  std::iota(dims.begin(), dims.end(), std::int64_t{0});
  return dims;
}

Found permute(const CutQuestion& q) {
  Shape order = q.call().integers(1);
  for (std::int64_t& dim : order) dim += dim < 0 ? static_cast<std::int64_t>(order.size()) : 0;
  return permuted(q, order);
}

Found transpose(const CutQuestion& q) {
  Shape order = dims_of(q);
  std::swap(order.at(at(q.dimension(1, order.size()))), order.at(at(q.dimension(2, order.size()))));
  return permuted(q, order);
}

Found t(const CutQuestion& q) {
  Shape order = dims_of(q);
  std::ranges::reverse(order);
  return permuted(q, order);
}

Found unsqueeze(const CutQuestion& q) {
  const std::optional<Rows> rows = q.rows(0);
  if (!rows) return std::nullopt;
  const bool is_before = q.dimension(1, q.made_shape().size()) <= rows->dim;
  return q.cut({0}, *rows, part_of(rows->at(rows->dim + (is_before ? 1 : 0))));
}

/// By whether the whole loses the dimension: a slice of one row is not to lose another.
Found squeeze(const CutQuestion& q) {
  const std::optional<Rows> rows = q.rows(0);
  if (!rows) return std::nullopt;
  if (q.made_shape().size() == q.shape(0).size()) {
    Cut cut = q.cut({0}, *rows);
    cut.call = [](const SliceCall& call) { return std::vector{call.tensor(0)}; };
    return cut;
  }
  const bool is_before = q.dimension(1, q.shape(0).size()) < rows->dim;
  return q.cut({0}, *rows, part_of(rows->at(rows->dim - (is_before ? 1 : 0))));
}

/// Picks along the dimension at argument kDim, which is not the rows'; kDrops: it is then gone.
template <std::size_t kDim, bool kDrops>
Found pick(const CutQuestion& q) {
  const std::optional<Rows> rows = q.rows(0);
  if (!rows) return std::nullopt;
  const std::int64_t dim = q.dimension(kDim, q.shape(0).size());
  if (dim == rows->dim) return std::nullopt;
  return q.cut({0}, *rows, part_of(rows->at(rows->dim - (kDrops && dim < rows->dim ? 1 : 0))));
}

/// (gradient, sizes of the input, dimension, ...); kInserts: the dimension is new.
template <bool kInserts>
Found pick_backward(const CutQuestion& q) {
  const std::optional<Rows> rows = q.rows(0);
  const Shape& sizes = q.made_shape();
  if (!rows) return std::nullopt;
  const std::int64_t dim = q.dimension(2, sizes.size());
  const Rows made = rows->at(rows->dim + (kInserts && dim <= rows->dim ? 1 : 0));
  if (made.dim == dim) return std::nullopt;
  Cut cut = q.cut({0}, *rows, part_of(made));
  cut.call = with_sizes(1, sizes, made);
  return cut;
}

/// (tensors, dimension); kStacks: the dimension is new.
template <bool kStacks>
Found join(const CutQuestion& q) {
  const std::optional<Rows> rows = q.inputs() == 0 ? std::nullopt : q.input_rows(0);
  if (!rows) return std::nullopt;
  const std::int64_t dim = q.dimension(1, q.made_shape().size());
  const Rows made = rows->at(rows->dim + (kStacks && dim <= rows->dim ? 1 : 0));
  if (made.dim == dim) return std::nullopt;
  Cut cut = q.cut({}, made);
  for (std::size_t position = 0; position < q.inputs(); ++position) {
    if (!q.has(position, *rows)) return std::nullopt;
    cut.reads[position] = part_of(*rows);
  }
  return cut;
}

constexpr SliceRule kViewRules[] = {
    {"aten::view", view},
    {"aten::expand", expand},
    {"aten::full", full},
    {"aten::permute", permute},
    {"aten::transpose.int", transpose},
    {"aten::t", t},
    {"aten::unsqueeze", unsqueeze},
    {"aten::squeeze.dim", squeeze},
    {"aten::select.int", pick<1, true>},
    {"aten::unbind.int", pick<1, true>},
    {"aten::split.Tensor", pick<2, false>},
    {"aten::slice.Tensor", pick<1, false>},
    {"aten::slice_backward", pick_backward<false>},
    {"aten::select_backward", pick_backward<true>},
    {"aten::cat", join<false>},
    {"aten::stack", join<true>},
};

}  // namespace

std::span<const SliceRule> view_rules() { return kViewRules; }

}  // namespace lowtide::slices
