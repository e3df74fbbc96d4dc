#include "runtime/tensors.h"

#include <ATen/ops/from_blob.h>

namespace lowtide {

c10::ScalarType scalar_type(DType dtype) {
  switch (dtype) {
    case DType::f64: return c10::ScalarType::Double;
    case DType::f32: return c10::ScalarType::Float;
    case DType::f16: return c10::ScalarType::Half;
    case DType::bf16: return c10::ScalarType::BFloat16;
    case DType::i64: return c10::ScalarType::Long;
    case DType::i32: return c10::ScalarType::Int;
    case DType::i16: return c10::ScalarType::Short;
    case DType::i8: return c10::ScalarType::Char;
    case DType::u8: return c10::ScalarType::Byte;
    case DType::boolean: return c10::ScalarType::Bool;
  }
  return c10::ScalarType::Undefined;
}

at::Tensor tensor_over(void* data, const Tensor& type) {
  const auto options = at::TensorOptions().dtype(scalar_type(type.dtype.value()));
  if (type.strides.empty()) return at::from_blob(data, type.shape, options);
  return at::from_blob(data, type.shape, type.strides, options);
}

}  // namespace lowtide
