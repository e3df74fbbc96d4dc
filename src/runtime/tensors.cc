#include "runtime/tensors.h"

#include <ATen/ops/from_blob.h>

#include "ops/op_def.h"

namespace lowtide::runtime {
namespace {

at::Tensor wrap(std::byte* data, at::IntArrayRef shape, at::IntArrayRef strides,
                const at::TensorOptions& options, std::shared_ptr<void> owner) {
  at::TensorMaker maker = at::for_blob(data, shape);
  maker.strides(strides).options(options).target_device(options.device());
  if (owner != nullptr) maker.deleter([owner = std::move(owner)](void*) {});
  return maker.make_tensor();
}

/// Compares only strides of dimensions with more than one element; others have no meaning.
bool has_strides(const at::Tensor& tensor, at::IntArrayRef strides) {
  for (std::int64_t dim = 0; dim < tensor.dim(); ++dim) {
    if (tensor.size(dim) > 1 && tensor.stride(dim) != strides[static_cast<std::size_t>(dim)]) {
      return false;
    }
  }
  return true;
}

}  // namespace

c10::ScalarType scalar_type(DType dtype) {
  switch (dtype) {
    case DType::c128: return c10::ScalarType::ComplexDouble;
    case DType::c64: return c10::ScalarType::ComplexFloat;
    case DType::f64: return c10::ScalarType::Double;
    case DType::f32: return c10::ScalarType::Float;
    case DType::f16: return c10::ScalarType::Half;
    case DType::bf16: return c10::ScalarType::BFloat16;
    case DType::i64: return c10::ScalarType::Long;
    case DType::i32: return c10::ScalarType::Int;
    case DType::i16: return c10::ScalarType::Short;
    case DType::i8: return c10::ScalarType::Char;
    case DType::u64: return c10::ScalarType::UInt64;
    case DType::u8: return c10::ScalarType::Byte;
    case DType::boolean: return c10::ScalarType::Bool;
  }
  return c10::ScalarType::Undefined;
}

bool lies_as(const Tensor& type, const at::Tensor& given) {
  if (given.scalar_type() != scalar_type(type.dtype.value())) return false;
  return type.strides.empty() ? given.is_contiguous() : has_strides(given, type.strides);
}

bool lie_alike(const at::Tensor& one, const at::Tensor& other) {
  return one.sizes() == other.sizes() && has_strides(one, other.strides());
}

bool is_number_on_host(const at::Tensor& tensor) {
  return tensor.defined() && tensor.is_cpu() && tensor.dim() == 0;
}

at::Tensor tensor_over(std::byte* data, const Tensor& type, c10::Device device,
                       std::shared_ptr<void> owner) {
  const auto options = at::TensorOptions().dtype(scalar_type(type.dtype.value())).device(device);
  const Shape strides = type.strides.empty() ? ops::contiguous_strides(type.shape) : type.strides;
  return wrap(data, type.shape, strides, options, std::move(owner));
}

at::Tensor tensor_over(std::byte* data, const at::Tensor& type, std::shared_ptr<void> owner) {
  at::Tensor tensor = wrap(data, type.sizes(), type.strides(), type.options(), std::move(owner));
  tensor._set_conj(type.is_conj());
  tensor._set_neg(type.is_neg());
  return tensor;
}

}  // namespace lowtide::runtime
