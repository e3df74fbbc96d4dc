// Functions of CUDA that inline functions of LibTorch's headers name and that Lowtide never calls.
// They are here so that the same build loads where there is no CUDA. Hidden: they replace nothing.

#include <cstdlib>

namespace lowtide::cuda {
extern "C" {

[[gnu::visibility("hidden")]] int cudaMemGetInfo(std::size_t*, std::size_t*) { std::abort(); }

/// c10::cuda::c10_cuda_check_implementation(), whose declaration has another visibility.
[[gnu::visibility("hidden")]] void _ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_jb(
    int, const char*, const char*, unsigned, bool) {
  std::abort();
}

}  // extern "C"
}  // namespace lowtide::cuda
