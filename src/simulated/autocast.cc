#include "simulated/autocast.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <set>
#include <string>
#include <utility>

#include "simulated/op_names.h"
#include "simulated/state.h"
#include "simulated/value_tensors.h"

namespace lowtide::simulated {
namespace {

constexpr c10::DispatchKey kAutocast = c10::DispatchKey::AutocastPrivateUse1;

/// Ops that the CPU's autocast runs in the lower precision, and those that it runs in the widest
/// type of their arguments. It runs all its others in float32.
const std::set<std::string> kInLowerPrecision = {"conv1d",
                                                 "conv2d",
                                                 "conv3d",
                                                 "bmm",
                                                 "mm",
                                                 "linalg_vecdot",
                                                 "baddbmm",
                                                 "addmm",
                                                 "_addmm_activation",
                                                 "addbmm",
                                                 "linear",
                                                 "_convolution",
                                                 "matmul",
                                                 "conv_tbc",
                                                 "mkldnn_rnn_layer",
                                                 "conv_transpose1d",
                                                 "conv_transpose2d",
                                                 "conv_transpose3d",
                                                 "prelu",
                                                 "scaled_dot_product_attention",
                                                 "_native_multi_head_attention"};
const std::set<std::string> kInWidest = {"stack", "cat", "index_copy"};

std::size_t first_argument(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  return stack.size() - op.schema().arguments().size();
}

void cast_and_call(const c10::OperatorHandle& op, torch::jit::Stack* stack, at::ScalarType type) {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(kAutocast);
  // From the last to the first, as the CPU's autocast: traces then have their casts in its order.
  for (std::size_t i = stack->size(); i-- > first_argument(op, *stack);) {
    (*stack)[i] = with_tensors((*stack)[i], [&](const at::Tensor& tensor) {
      return at::autocast::cached_cast(type, tensor, kDeviceType);
    });
  }
  op.callBoxed(stack);
}

void in_lower_precision(const c10::OperatorHandle& op, c10::DispatchKeySet,
                        torch::jit::Stack* stack) {
  cast_and_call(op, stack, at::autocast::get_autocast_dtype(kDeviceType));
}

void in_float(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  cast_and_call(op, stack, at::kFloat);
}

void in_widest(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  at::ScalarType type = at::autocast::get_autocast_dtype(kDeviceType);
  for (std::size_t i = first_argument(op, *stack); i < stack->size(); ++i) {
    visit_tensors((*stack)[i], [&](const at::Tensor& tensor) {
      if (tensor.defined() && tensor.scalar_type() == at::kFloat) type = at::kFloat;
    });
  }
  cast_and_call(op, stack, type);
}

torch::CppFunction cast_of(const std::string& op) {
  if (kInLowerPrecision.contains(op)) {
    return torch::CppFunction::makeFromBoxedFunction<&in_lower_precision>();
  }
  if (kInWidest.contains(op)) return torch::CppFunction::makeFromBoxedFunction<&in_widest>();
  return torch::CppFunction::makeFromBoxedFunction<&in_float>();
}

}  // namespace

void register_autocast() {
  auto* const all = new torch::Library(torch::Library::IMPL, "_", kAutocast, __FILE__, __LINE__);
  all->fallback(torch::CppFunction::makeFallthrough());
  auto* const aten =
      new torch::Library(torch::Library::IMPL, "aten", kAutocast, __FILE__, __LINE__);
  for (const OpName& op : aten_ops_with(c10::DispatchKey::AutocastCPU)) {
    aten->impl(op.full.c_str(), cast_of(op.base));
  }
}

}  // namespace lowtide::simulated
