#include "ops/op_def.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "ops/shapes.h"

namespace lowtide::ops {
namespace {

[[noreturn]] void refuse_argument(const OpCall& call, std::size_t i, std::string_view expected) {
  refuse(call.type(), fmt::format("argument {} must be {}", i, expected));
}

using Registry = std::vector<const OpDef*>;

Registry make_registry() {
  Registry registry;
  for (auto family : {pointwise_ops(), view_ops(), matrix_ops(), convolution_ops(),
                      normalization_ops(), pooling_ops(), reduction_ops(), indexing_ops(),
                      random_ops(), loss_ops(), optimizer_ops()}) {
    for (const OpDef& def : family) registry.push_back(&def);
  }
  std::ranges::sort(registry, {}, &OpDef::type);
  return registry;
}

/// Every op of the library by name.
const Registry& registry() {
  static const Registry all = make_registry();
  return all;
}

}  // namespace

std::int64_t TensorType::elements() const { return count_elements(shape); }

bool TensorType::contiguous() const {
  if (elements() == 0) return true;
  std::int64_t step = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 1) continue;
    if (strides[i] != step) return false;
    step *= shape[i];
  }
  return true;
}

Shape contiguous_strides(const Shape& shape) {
  Shape strides(shape.size());
  std::int64_t step = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = step;
    step = checked_times(step, std::max<std::int64_t>(shape[i], 1), shape);
  }
  return strides;
}

TensorType contiguous_type(DType dtype, Shape shape) {
  Shape strides = contiguous_strides(shape);
  return {dtype, std::move(shape), std::move(strides)};
}

bool OpCall::has(std::size_t i) const { return i < args_.size() && !holds<NoneArg>(i); }

int OpCall::position(std::size_t i) const {
  return holds<TensorArg>(i) ? std::get<TensorArg>(args_[i]).position : kNone;
}

const TensorType& OpCall::tensor(std::size_t i) const {
  if (!holds<TensorArg>(i)) refuse_argument(*this, i, "a tensor");
  return inputs_[static_cast<std::size_t>(position(i))];
}

std::vector<TensorType> OpCall::tensors(std::size_t i) const {
  if (!holds<TensorListArg>(i)) refuse_argument(*this, i, "a list of tensors");
  std::vector<TensorType> result;
  for (int position : std::get<TensorListArg>(args_[i]).positions) {
    result.push_back(inputs_[static_cast<std::size_t>(position)]);
  }
  return result;
}

std::int64_t OpCall::integer(std::size_t i) const {
  if (!holds<std::int64_t>(i)) refuse_argument(*this, i, "an integer");
  return std::get<std::int64_t>(args_[i]);
}

std::int64_t OpCall::integer_or(std::size_t i, std::int64_t otherwise) const {
  return has(i) ? integer(i) : otherwise;
}

double OpCall::number(std::size_t i) const {
  if (holds<double>(i)) return std::get<double>(args_[i]);
  if (!holds<std::int64_t>(i)) refuse_argument(*this, i, "a number");
  return static_cast<double>(integer(i));
}

bool OpCall::boolean(std::size_t i) const {
  if (!holds<bool>(i)) refuse_argument(*this, i, "true or false");
  return std::get<bool>(args_[i]);
}

bool OpCall::boolean_or(std::size_t i, bool otherwise) const {
  return has(i) ? boolean(i) : otherwise;
}

std::vector<std::int64_t> OpCall::integers(std::size_t i) const {
  if (!has(i)) return {};
  if (!holds<std::vector<std::int64_t>>(i)) refuse_argument(*this, i, "a list of integers");
  return std::get<std::vector<std::int64_t>>(args_[i]);
}

DType OpCall::dtype(std::size_t i, DType otherwise) const {
  if (!has(i)) return otherwise;
  if (!holds<DType>(i)) refuse_argument(*this, i, "an element type");
  return std::get<DType>(args_[i]);
}

const OpDef* find_op(std::string_view type) {
  const auto found = std::ranges::lower_bound(registry(), type, {}, &OpDef::type);
  return found != registry().end() && (*found)->type == type ? *found : nullptr;
}

std::vector<std::string> op_names() {
  std::vector<std::string> names;
  for (const OpDef* def : registry()) names.emplace_back(def->type);
  return names;
}

}  // namespace lowtide::ops
