#pragma once

#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <optional>

namespace lowtide::simulated {

/// Replaces each tensor in a value: a tensor, a list of tensors, or one of optional tensors.
template <typename Replace>
c10::IValue with_tensors(const c10::IValue& value, const Replace& replace) {
  if (value.isTensor()) return replace(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> replaced;
    for (const at::Tensor& tensor : value.toTensorVector()) replaced.push_back(replace(tensor));
    return replaced;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> replaced;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
      replaced.push_back(tensor ? std::optional(replace(*tensor)) : std::nullopt);
    }
    return replaced;
  }
  return value;
}

template <typename Visit>
void visit_tensors(const c10::IValue& value, const Visit& visit) {
  with_tensors(value, [&](const at::Tensor& tensor) {
    visit(tensor);
    return tensor;
  });
}

}  // namespace lowtide::simulated
