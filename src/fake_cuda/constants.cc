#include "fake_cuda/constants.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <torch/library.h>

namespace lowtide::fake_cuda {
namespace {

/// Gives no memory to whoever asks.
class NoMemory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t) override {
    return {nullptr, c10::Device(c10::DeviceType::CUDA, 0)};
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return [](void*) {};
  }
  void copy_data(void*, const void*, std::size_t) const override {}
};

constexpr c10::DispatchKeySet kCuda(c10::DispatchKey::CUDA);

c10::Allocator* no_memory() {
  static NoMemory allocator;
  return &allocator;
}

at::Tensor empty(c10::SymIntArrayRef sizes, std::optional<at::ScalarType> dtype,
                 std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>,
                 std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(C10_AS_INTARRAYREF_SLOW(sizes), no_memory(), kCuda,
                                   dtype.value_or(at::kFloat), format);
}

at::Tensor empty_strided(c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides,
                         std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                         std::optional<at::Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(C10_AS_INTARRAYREF_SLOW(sizes),
                                           C10_AS_INTARRAYREF_SLOW(strides), no_memory(), kCuda,
                                           dtype.value_or(at::kFloat));
}

at::Tensor& copy_(at::Tensor& self, const at::Tensor&, bool) {
  TORCH_CHECK(self.is_cuda(), "the numbers of a tensor on a CUDA device that is not here are asked "
                              "for, and nothing is computed there");
  return self;
}

}  // namespace

void install_constants() {
  static torch::Library library(torch::Library::IMPL, "aten", c10::DispatchKey::CUDA, __FILE__,
                                __LINE__);
  library.impl("empty.memory_format", &empty);
  library.impl("empty_strided", &empty_strided);
  library.impl("copy_", &copy_);
}

}  // namespace lowtide::fake_cuda
