#include "device/present_gpu.h"

#ifdef LOWTIDE_CUDA
#include <ATen/Context.h>
#include <dlfcn.h>

#include "cuda/cuda_device.h"
#include "device/device.h"
#endif

namespace lowtide::device {

#ifdef LOWTIDE_CUDA
bool has_gpu() {
  static const bool has = [] {
    dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL);  // nothing here is linked with it
    if (!at::hasCUDA()) return false;
    at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
    add_device(cuda::cuda_device(0, "GPU"));
    return true;
  }();
  return has;
}
#else
bool has_gpu() { return false; }
#endif

}  // namespace lowtide::device
