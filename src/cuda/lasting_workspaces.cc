#include "cuda/lasting_workspaces.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <unordered_set>

namespace lowtide::cuda {
namespace {

/// The caller's modes see nothing of it.
const c10::DispatchKeySet kNoConcern =
    c10::autocast_dispatch_keyset |
    c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot});

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

}  // namespace lowtide::cuda
