#include "builder/autocast.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/at.h"
#include "base/error.h"
#include "builder/builder.h"

namespace lowtide {
namespace {

constexpr AutocastRule kAutocastRules[] = {
    {"addmm", AutocastTo::lower},
    {"baddbmm", AutocastTo::lower},
    {"bmm", AutocastTo::lower},
    {"conv2d", AutocastTo::lower},
    {"conv_transpose2d", AutocastTo::lower},
    {"linear", AutocastTo::lower},
    {"matmul", AutocastTo::lower},
    {"mm", AutocastTo::lower},

    {"binary_cross_entropy_with_logits", AutocastTo::f32},
    {"cross_entropy_loss", AutocastTo::f32},
    {"max_unpool2d", AutocastTo::f32},
    {"mse_loss", AutocastTo::f32},
    {"nll_loss", AutocastTo::f32},

    {"cat", AutocastTo::widest},
    {"stack", AutocastTo::widest},
};

/// f64 is left as it is, like all that is no floating-point number.
bool is_cast(DType dtype) {
  return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16;
}

DType target(AutocastTo to, DType lower, std::span<Value* const> operands) {
  if (to != AutocastTo::widest) return to == AutocastTo::f32 ? DType::f32 : lower;
  const bool has_f32 = std::ranges::any_of(
      operands, [](const Value* value) { return *value && value->dtype() == DType::f32; });
  return has_f32 ? DType::f32 : lower;
}

/// The tensors among the arguments of an op.
std::vector<Value*> operands_of(std::vector<CallArg>& args) {
  std::vector<Value*> operands;
  for (CallArg& arg : args) {
    if (auto* value = std::get_if<Value>(&arg)) operands.push_back(value);
    if (auto* values = std::get_if<std::vector<Value>>(&arg)) {
      for (Value& value : *values) operands.push_back(&value);
    }
  }
  return operands;
}

}  // namespace

std::span<const AutocastRule> autocast_rules() { return kAutocastRules; }

std::optional<AutocastTo> autocast_rule(std::string_view function) {
  const auto found = std::ranges::find(kAutocastRules, function, &AutocastRule::function);
  return found == std::end(kAutocastRules) ? std::nullopt : std::optional(found->to);
}

void Builder::autocast(std::string_view function, std::span<Value* const> operands) {
  if (!lower_) return;
  const std::optional<AutocastTo> rule = autocast_rule(function);
  if (!rule) return;
  const DType dtype = target(*rule, *lower_, operands);
  for (Value* operand : operands) {
    const bool changes = *operand && is_cast(operand->dtype()) && operand->dtype() != dtype;
    if (changes) *operand = cast(*operand, dtype);
  }
}

std::vector<CallArg> Builder::autocast_args(std::string_view function, std::vector<CallArg> args) {
  autocast(function, operands_of(args));
  return args;
}

/// A parameter is cast once, so that all its uses read the same copy, and the gradients of the uses
/// are added up before they are cast back: PyTorch's weight cache does the same. Other values are
/// cast for each use.
Value Builder::cast(Value value, DType dtype) {
  const auto make = [&] { return call1("aten::_to_copy", {value, dtype}); };
  const bool is_shared = dtype == lower_ && data_.tensors[at(value.id())].role == Role::parameter;
  if (!is_shared) return make();
  const auto known = lower_parameters_.find(value.id());
  if (known != lower_parameters_.end()) return known->second;
  return lower_parameters_[value.id()] = make();
}

Builder::Autocast::Autocast(Builder& builder, DType dtype)
    : builder_(builder), before_(builder.lower_) {
  if (!is_cast(dtype)) {
    throw InputError(
        fmt::format("autocast to {}: the types are f32 (no casts), bf16 and f16.", name(dtype)));
  }
  builder_.lower_.reset();
  if (dtype != DType::f32) builder_.lower_ = dtype;
  builder_.lower_parameters_.clear();
}

Builder::Autocast::~Autocast() {
  builder_.lower_ = before_;
  builder_.lower_parameters_.clear();
}

}  // namespace lowtide
