#include "runtime/tensors.h"

#include <ATen/ops/from_blob.h>

#include "ops/op_def.h"

namespace lowtide {
namespace {

at::Tensor wrap(std::byte* data, at::IntArrayRef shape, at::IntArrayRef strides,
                const at::TensorOptions& options, std::shared_ptr<void> owner) {
  if (owner == nullptr) return at::from_blob(data, shape, strides, options);
  return at::from_blob(data, shape, strides, [owner = std::move(owner)](void*) {}, options);
}

}  // namespace

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

bool lies_as(const Tensor& type, const at::Tensor& given) {
  if (given.scalar_type() != scalar_type(type.dtype.value())) return false;
  if (type.strides.empty()) return given.is_contiguous();
  for (std::size_t d = 0; d < type.strides.size(); ++d) {
    const auto dim = static_cast<std::int64_t>(d);
    if (given.size(dim) > 1 && given.stride(dim) != type.strides[d]) return false;
  }
  return true;
}

at::Tensor tensor_over(std::byte* data, const Tensor& type, c10::Device device,
                       std::shared_ptr<void> owner) {
  const auto options = at::TensorOptions().dtype(scalar_type(type.dtype.value())).device(device);
  const Shape strides = type.strides.empty() ? contiguous_strides(type.shape) : type.strides;
  return wrap(data, type.shape, strides, options, std::move(owner));
}

at::Tensor tensor_over(std::byte* data, const at::Tensor& type, std::shared_ptr<void> owner) {
  return wrap(data, type.sizes(), type.strides(), type.options(), std::move(owner));
}

}  // namespace lowtide
