#include "slices/rule.h"

#include <algorithm>
#include <map>

#include "base/at.h"
#include "graph/dtype.h"

namespace lowtide::slices {
namespace {

using Registry = std::map<std::string_view, const SliceRule*>;

Registry collect() {
  Registry registry;
  for (auto family : {view_rules, matrix_rules, reduction_rules, image_rules, normalization_rules,
                      loss_rules, embedding_rules}) {
    for (const SliceRule& rule : family()) registry.emplace(rule.type, &rule);
  }
  return registry;
}

std::optional<Cut> cut_of_rows(const CutQuestion& question) {
  static const Registry all = collect();
  const auto found = all.find(question.op().type);
  if (found != all.end()) return found->second->find(question);
  if (is_elementwise(question.op().type)) return cut_elementwise(question);
  return std::nullopt;
}

std::optional<Cut> cut_of_totals(const CutQuestion& question) {
  const auto rule = std::ranges::find(total_rules(), question.op().type, &SliceRule::type);
  return rule == total_rules().end() ? std::nullopt : rule->find(question);
}

std::vector<ops::TensorType> types_of(const Graph& graph, const Op& op) {
  std::vector<ops::TensorType> types;
  for (TensorId id : op.inputs) {
    const Tensor& tensor = graph.tensor(id);
    types.push_back(
        {tensor.dtype.value_or(DType::f32), tensor.shape,
         tensor.strides.empty() ? ops::contiguous_strides(tensor.shape) : tensor.strides});
  }
  return types;
}

}  // namespace

CutQuestion::CutQuestion(const Graph& graph, const Op& op, std::span<const Part> parts,
                         std::int64_t size)
    : op_(op),
      parts_(parts),
      size_(size),
      types_(types_of(graph, op)),
      call_(op_.type, op_.args, types_) {
  for (TensorId id : op.outputs) made_shapes_.push_back(graph.tensor(id).shape);
}

const Shape& CutQuestion::made_shape(std::size_t output) const { return made_shapes_.at(output); }

std::int64_t CutQuestion::dimension(std::size_t i, std::size_t rank, std::int64_t otherwise) const {
  const std::int64_t given = call_.integer_or(i, otherwise);
  return given < 0 ? given + static_cast<std::int64_t>(rank) : given;
}

std::optional<Rows> CutQuestion::rows(std::size_t i) const {
  const int position = call_.position(i);
  return position == kNone ? std::nullopt : input_rows(lowtide::at(position));
}

std::optional<Rows> CutQuestion::input_rows(std::size_t position) const {
  const Part& part = parts_[lowtide::at(op_.inputs[position])];
  return part.kind == Part::Kind::rows ? std::optional(part.rows) : std::nullopt;
}

bool CutQuestion::is_total(std::size_t position) const {
  return parts_[lowtide::at(op_.inputs[position])].kind == Part::Kind::total;
}

bool CutQuestion::has(std::size_t position, Rows rows) const {
  const Shape& sizes = types_[position].shape;
  return rows.dim >= 0 && rows.dim < static_cast<std::int64_t>(sizes.size()) &&
         sizes[lowtide::at(rows.dim)] == length(rows, size_);
}

bool CutQuestion::argument_has(std::size_t i, Rows rows) const {
  return call_.position(i) != kNone && has(lowtide::at(call_.position(i)), rows);
}

Cut CutQuestion::cut(std::initializer_list<std::size_t> arguments, Rows read, Part made) const {
  Cut cut{std::vector<Part>(op_.inputs.size()), std::vector<Part>(op_.outputs.size(), made)};
  for (std::size_t i : arguments) {
    if (call_.position(i) != kNone) cut.reads[lowtide::at(call_.position(i))] = part_of(read);
  }
  return cut;
}

std::optional<Cut> cut_of(const CutQuestion& question) {
  if (std::optional<Cut> found = cut_of_rows(question)) return found;
  for (std::size_t position = 0; position < question.inputs(); ++position) {
    if (question.is_total(position)) return cut_of_totals(question);
  }
  return std::nullopt;
}

bool is_of_no_use_alone(const Graph& graph, const Op& op) {
  if (op.type == "aten::add.Tensor" || op.type == "aten::sub.Tensor") return false;
  if (op.type != "aten::_to_copy") return true;
  const auto width = [&](TensorId id) { return element_bytes(graph.tensor(id).dtype.value()); };
  return width(op.outputs.front()) <= width(op.inputs.front());
}

Shape resized(Shape sizes, Rows rows, std::int64_t count) {
  sizes.at(lowtide::at(rows.dim)) = CutQuestion::length(rows, count);
  return sizes;
}

}  // namespace lowtide::slices
