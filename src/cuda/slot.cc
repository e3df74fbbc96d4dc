#include "cuda/slot.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/headeronly/version.h>

#include <string>

#include "base/error.h"

namespace lowtide::cuda {
namespace {

constexpr const char* kLibrary = "libc10_cuda.so";
constexpr const char* kSlot = "_ZN3c104cuda20CUDACachingAllocator9allocatorE";
constexpr const char* kInstead =
    "use the plan as a policy for checkpointing instead, which needs no memory of Lowtide's "
    "(docs/how-to/use-a-plan-without-the-executor.md)";

AllocatorSlot& find_slot() {
  // The classes of its allocator differ between versions, and so do the places of their functions.
  if (aoti_torch_abi_version() != TORCH_ABI_VERSION) {
    throw InputError(
        fmt::format("this Lowtide was built for LibTorch {}, and another version is loaded; "
                    "build Lowtide with the torch that you use",
                    TORCH_VERSION));
  }
  void* const library = dlopen(kLibrary, RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) {
    throw InputError(
        fmt::format("{} is not loaded: this torch is built without CUDA; install one that "
                    "is built with it, of version {}",
                    kLibrary, TORCH_VERSION));
  }
  void* const slot = dlsym(library, kSlot);
  dlclose(library);
  if (slot == nullptr) {
    throw InputError(
        fmt::format("{} has no variable {}, where torch {} keeps its allocator: it is of "
                    "another version or maker; {}",
                    kLibrary, kSlot, TORCH_VERSION, kInstead));
  }
  return *static_cast<AllocatorSlot*>(slot);
}

}  // namespace

AllocatorSlot& allocator_slot() {
  static AllocatorSlot& slot = find_slot();
  return slot;
}

void require_caching_allocator(CUDAAllocator* allocator) {
  if (allocator == nullptr || !allocator->initialized()) {
    throw InputError("CUDA is not initialized in this process; put the model on the GPU first");
  }
  if (const std::string name = allocator->name(); name != "native") {
    throw InputError(
        fmt::format("this process takes memory of GPUs from the allocator \"{}\", and plans "
                    "are run on torch's own caching allocator alone: leave out "
                    "torch.cuda.memory.change_current_allocator and the backend in "
                    "PYTORCH_CUDA_ALLOC_CONF; or {}",
                    name, kInstead));
  }
}

}  // namespace lowtide::cuda
