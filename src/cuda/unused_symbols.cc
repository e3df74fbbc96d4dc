// Functions of CUDA that inline functions of LibTorch's headers name and that Lowtide never calls.
// They are here so that the same build loads where there is no CUDA. Hidden: they replace nothing.

#include <cstdlib>

namespace lowtide::cuda {
extern "C" {

[[gnu::visibility("hidden")]] int cudaMemGetInfo(std::size_t*, std::size_t*) { std::abort(); }

// The functions that C10_CUDA_CHECK calls, whose declarations have another visibility. The names
// are those of each version of PyTorch, so that its declarations do not matter.

/// c10::cuda::c10_cuda_check_implementation() up to PyTorch 2.14.
[[gnu::visibility("hidden")]] void _ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_jb(
    int, const char*, const char*, unsigned, bool) {
  std::abort();
}

/// The same from PyTorch 2.15 on, with a CUDAErrorLogCapture.
[[gnu::visibility("hidden")]] void
_ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_jbPNS0_19CUDAErrorLogCaptureE(int, const char*,
                                                                                 const char*,
                                                                                 unsigned, bool,
                                                                                 void*) {
  std::abort();
}

/// c10::cuda::CUDAErrorLogCapture::CUDAErrorLogCapture(), from PyTorch 2.15 on.
[[gnu::visibility("hidden")]] void _ZN3c104cuda19CUDAErrorLogCaptureC1Ev(void*) { std::abort(); }

}  // extern "C"
}  // namespace lowtide::cuda
