#include "cuda/lasting_workspaces.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <dlfcn.h>

#include <unordered_set>

namespace lowtide::cuda {
namespace {

/// The caller's modes see nothing of it.
const c10::DispatchKeySet kNoConcern =
    c10::autocast_dispatch_keyset |
    c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot});

/// at::cuda::getChosenWorkspaceSize() and at::cuda::getCUDABlasLtWorkspaceSize()
constexpr const char* kSizes[] = {"_ZN2at4cuda22getChosenWorkspaceSizeEv",
                                  "_ZN2at4cuda26getCUDABlasLtWorkspaceSizeEv"};

}  // namespace

void take_lasting_workspaces(c10::Stream stream) {
  thread_local std::unordered_set<c10::Stream> done;
  if (!done.insert(stream).second) return;
  const c10::DeviceGuard guard(stream.device());
  const at::NoGradGuard no_grad;
  const c10::impl::ExcludeDispatchKeyGuard excluded(kNoConcern);
  const auto options = at::TensorOptions().dtype(at::kFloat).device(stream.device());
  const at::Tensor matrix = at::ones({16, 16}, options);
  at::mm(matrix, matrix);                              // cuBLAS
  at::addmm(at::ones({16}, options), matrix, matrix);  // cuBLASLt
}

Bytes lasting_workspace_bytes() {
  void* const library = dlopen("libtorch_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return 0;
  Bytes bytes = 0;
  for (const char* name : kSizes) {
    auto* const size = reinterpret_cast<std::size_t (*)()>(dlsym(library, name));
    if (size != nullptr) bytes += static_cast<Bytes>(size());
  }
  dlclose(library);
  return bytes;
}

}  // namespace lowtide::cuda
