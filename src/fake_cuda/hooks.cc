#include "fake_cuda/hooks.h"

#include <ATen/detail/CUDAHooksInterface.h>

#include <memory>
#include <string>

namespace lowtide::fake_cuda {
namespace {

/// The name under which PyTorch's library for CUDA registers its own.
const std::string kHooks = "CUDAHooks";

bool with_cudnn = true;

/// The convolutions and norms that a GPU has are those of cuDNN: their results lie in memory
/// otherwise than those of PyTorch's own kernels.
class Hooks final : public at::CUDAHooksInterface {
 public:
  void init() const override {}
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  c10::DeviceIndex current_device() const override { return 0; }
  int getNumGPUs() const override { return 1; }

  bool hasCUDA() const override { return true; }
  bool hasCUDART() const override { return true; }
  bool hasCuSOLVER() const override { return true; }
  bool hasCuBLASLt() const override { return true; }
  bool hasCuDNN() const override { return with_cudnn; }
  bool compiledWithCuDNN() const override { return with_cudnn; }
  bool supportsDilatedConvolutionWithCuDNN() const override { return with_cudnn; }
  bool supportsDepthwiseConvolutionWithCuDNN() const override { return with_cudnn; }
  bool supportsBFloat16ConvolutionWithCuDNNv8() const override { return with_cudnn; }
  bool supportsBFloat16RNNWithCuDNN() const override { return with_cudnn; }
  long versionCuDNN() const override { return kCudnnVersion; }
  long versionRuntimeCuDNN() const override { return kCudnnVersion; }
  double batchnormMinEpsilonCuDNN() const override { return 0; }
};

std::unique_ptr<at::CUDAHooksInterface> make_hooks(at::CUDAHooksArgs) {
  return std::make_unique<Hooks>();
}

}  // namespace

bool has_cuda_library() { return at::CUDAHooksRegistry()->Has(kHooks); }

bool install_hooks(bool is_amd) {
  with_cudnn = !is_amd;
  at::CUDAHooksRegistry()->Register(kHooks, &make_hooks);
  return at::detail::getCUDAHooks().hasCUDA();
}

}  // namespace lowtide::fake_cuda
