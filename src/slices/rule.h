#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ops/op_def.h"
#include "slices/cut.h"

namespace lowtide::slices {

/// What a rule asks about an op: its arguments, and where the rows of the batch lie in them.
class CutQuestion {
 public:
  /// `parts`: by tensor of the graph. `size`: rows of the batch.
  CutQuestion(const Graph& graph, const Op& op, std::span<const Part> parts, std::int64_t size);

  const Op& op() const { return op_; }
  const ops::OpCall& call() const { return call_; }
  std::int64_t size() const { return size_; }
  std::size_t inputs() const { return types_.size(); }
  const Shape& input_shape(std::size_t position) const { return types_[position].shape; }
  const Shape& made_shape(std::size_t output = 0) const;
  /// Of a tensor at schema argument `i`.
  const Shape& shape(std::size_t i) const { return call_.tensor(i).shape; }
  /// Schema argument `i` as a dimension of a tensor of `rank` that is not negative.
  std::int64_t dimension(std::size_t i, std::size_t rank, std::int64_t otherwise = 0) const;

  /// Where the rows of the tensor at schema argument `i` lie; nothing for what has none.
  std::optional<Rows> rows(std::size_t i) const;
  std::optional<Rows> input_rows(std::size_t position) const;
  bool is_total(std::size_t position) const;
  /// Whether the tensor at a position of the inputs is large enough to have these rows.
  bool has(std::size_t position, Rows rows) const;
  bool argument_has(std::size_t i, Rows rows) const;
  /// The size of the rows' dimension for so many rows.
  static std::int64_t length(Rows rows, std::int64_t count) { return rows.unit * count; }

  /// Slices read these rows of the tensors at some schema arguments, all else as a whole, and make
  /// `made` of each output. Arguments that are None are passed over.
  Cut cut(std::initializer_list<std::size_t> arguments, Rows read, Part made) const;
  Cut cut(std::initializer_list<std::size_t> arguments, Rows read) const {
    return cut(arguments, read, part_of(read));
  }

 private:
  const Op& op_;
  std::span<const Part> parts_;
  std::int64_t size_;
  std::vector<ops::TensorType> types_;
  std::vector<Shape> made_shapes_;
  ops::OpCall call_;
};

/// How one type of op runs in slices. `find` returns nothing for a call that it cannot cut.
struct SliceRule {
  std::string_view type;
  std::optional<Cut> (*find)(const CutQuestion& question);
};

/// How that op runs in slices, if it does.
std::optional<Cut> cut_of(const CutQuestion& question);

/// Whether slices gain nothing by an op on parts of a sum: it adds nothing up and rounds no finer,
/// so it may as well wait for the whole sum.
bool is_of_no_use_alone(const Graph& graph, const Op& op);

/// `sizes` for so many rows.
Shape resized(Shape sizes, Rows rows, std::int64_t count);

// One function per family; the registry in rule.cc lists them.
std::span<const SliceRule> view_rules();
std::span<const SliceRule> matrix_rules();
std::span<const SliceRule> reduction_rules();
std::span<const SliceRule> image_rules();
std::span<const SliceRule> normalization_rules();
std::span<const SliceRule> loss_rules();
std::span<const SliceRule> embedding_rules();
std::span<const SliceRule> total_rules();  ///< of ops on parts of sums

/// The rule of all ops whose results at an index depend on the inputs at that index alone.
std::optional<Cut> cut_elementwise(const CutQuestion& question);
bool is_elementwise(std::string_view type);

}  // namespace lowtide::slices
