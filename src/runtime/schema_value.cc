#include "runtime/schema_value.h"

#include <ATen/ScalarOps.h>
#include <ATen/core/List.h>
#include <fmt/format.h>

#include "base/error.h"
#include "runtime/tensors.h"

namespace lowtide::runtime {
namespace {

using c10::TypeKind;

/// The type inside an optional; the type itself otherwise. `real_type` distinguishes types that are
/// equal as IValues: symbolic integers, dtypes, layouts.
c10::TypePtr core_type(const c10::Argument& expected) {
  const c10::TypePtr& type = expected.real_type();
  if (auto optional = type->cast<c10::OptionalType>()) return optional->getElementType();
  return type;
}

c10::TypePtr list_element(const c10::Argument& expected) {
  auto list = core_type(expected)->cast<c10::ListType>();
  return list ? list->getElementType() : nullptr;
}

bool is_integer(TypeKind kind) {
  return kind == TypeKind::IntType || kind == TypeKind::SymIntType ||
         kind == TypeKind::MemoryFormatType || kind == TypeKind::LayoutType;
}

[[noreturn]] void refuse(const c10::Argument& expected, std::string_view got) {
  throw InputError(fmt::format("argument \"{}\" wants {}, but {} is given", expected.name(),
                               expected.real_type()->str(), got));
}

template <typename To, typename From>
c10::IValue list_of(const std::vector<From>& values) {
  c10::List<To> list;
  list.reserve(values.size());
  for (From value : values) list.push_back(static_cast<To>(value));
  return list;
}

template <typename From>
c10::IValue list_value(const std::vector<From>& values, const c10::Argument& expected) {
  const c10::TypePtr element = list_element(expected);
  if (!element) refuse(expected, "a list");
  if (element->kind() == TypeKind::FloatType) return list_of<double>(values);
  if (std::is_integral_v<From> && is_integer(element->kind())) return list_of<int64_t>(values);
  if (std::is_integral_v<From> && element->kind() == TypeKind::BoolType)
    return list_of<bool>(values);
  refuse(expected, "a list of numbers");
}

/// A number as a tensor, made as in PyTorch's own calls: in type promotion it counts as a
/// number.
c10::IValue wrapped_number(const c10::Scalar& value) {
  at::Tensor number = c10::scalar_to_tensor(value);
  number.unsafeGetTensorImpl()->set_wrapped_number(true);
  return number;
}

/// Converts each alternative of Argument to the type `expected`.
struct Converter {
  const c10::Argument& expected;

  c10::IValue operator()(NoneArg) const {
    if (takes_none(expected)) return {};
    if (expected.default_value()) return *expected.default_value();
    // Some schemas say "Tensor" where the op knows none: the bias of the backward passes of
    // attention.
    if (core_type(expected)->kind() == TypeKind::TensorType) return at::Tensor();
    refuse(expected, "nothing");
  }
  c10::IValue operator()(const TensorArg&) const { refuse(expected, "a tensor"); }
  c10::IValue operator()(const TensorListArg&) const { refuse(expected, "a list of tensors"); }
  c10::IValue operator()(bool value) const {
    switch (core_type(expected)->kind()) {
      case TypeKind::BoolType:
      case TypeKind::NumberType: return value;
      case TypeKind::IntType: return static_cast<int64_t>(value);
      case TypeKind::TensorType: return wrapped_number(value);
      default: refuse(expected, "a boolean");
    }
  }
  c10::IValue operator()(std::int64_t value) const {
    const c10::TypePtr type = core_type(expected);
    if (is_integer(type->kind()) || type->kind() == TypeKind::NumberType) return value;
    if (type->kind() == TypeKind::FloatType) return static_cast<double>(value);
    if (type->kind() == TypeKind::BoolType) return value != 0;
    if (type->kind() == TypeKind::TensorType) return wrapped_number(value);
    if (expected.N()) {
      return list_value(std::vector<std::int64_t>(static_cast<std::size_t>(*expected.N()), value),
                        expected);
    }
    refuse(expected, "an integer");
  }
  c10::IValue operator()(double value) const {
    switch (core_type(expected)->kind()) {
      case TypeKind::FloatType:
      case TypeKind::NumberType: return value;
      case TypeKind::TensorType: return wrapped_number(value);
      default: refuse(expected, "a real number");
    }
  }
  c10::IValue operator()(std::complex<double> value) const {
    const c10::Scalar number(c10::complex<double>(value.real(), value.imag()));
    switch (core_type(expected)->kind()) {
      case TypeKind::NumberType: return number;
      case TypeKind::TensorType: return wrapped_number(number);
      default: refuse(expected, "a complex number");
    }
  }
  c10::IValue operator()(const std::vector<std::int64_t>& values) const {
    return list_value(values, expected);
  }
  c10::IValue operator()(const std::vector<double>& values) const {
    return list_value(values, expected);
  }
  c10::IValue operator()(DType dtype) const {
    if (core_type(expected)->kind() == TypeKind::ScalarTypeType) return scalar_type(dtype);
    refuse(expected, "a dtype");
  }
  c10::IValue operator()(const std::string& text) const {
    if (core_type(expected)->kind() == TypeKind::StringType) return text;
    refuse(expected, "a text");
  }
};

}  // namespace

c10::IValue schema_value(const Argument& argument, const c10::Argument& expected) {
  return std::visit(Converter{expected}, argument);
}

bool takes_none(const c10::Argument& expected) {
  return expected.real_type()->kind() == TypeKind::OptionalType;
}

bool takes_tensor(const c10::Argument& expected) {
  return core_type(expected)->kind() == TypeKind::TensorType;
}

bool takes_device(const c10::Argument& expected) {
  return core_type(expected)->kind() == TypeKind::DeviceObjType;
}

bool takes_optional_tensors(const c10::Argument& expected) {
  const c10::TypePtr element = list_element(expected);
  const auto optional = element ? element->cast<c10::OptionalType>() : nullptr;
  return optional && optional->getElementType()->kind() == TypeKind::TensorType;
}

bool takes_tensor_list(const c10::Argument& expected) {
  const c10::TypePtr element = list_element(expected);
  return element && (element->kind() == TypeKind::TensorType || takes_optional_tensors(expected));
}

}  // namespace lowtide::runtime
