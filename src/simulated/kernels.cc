#include "simulated/kernels.h"

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/NativeFunctions.h>
#include <ATen/Operators.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/native/transformers/attention.h>
#include <torch/library.h>

#include <array>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "simulated/allocator.h"
#include "simulated/cells.h"
#include "simulated/copies.h"
#include "simulated/guard.h"
#include "simulated/host_call.h"
#include "simulated/host_views.h"
#include "simulated/op_names.h"
#include "simulated/state.h"
#include "simulated/whole_on_host.h"

namespace lowtide::simulated {
namespace {

using c10::DispatchKey;
using torch::CppFunction;
using torch::Library;

void require_plain(std::optional<at::Device> device, std::optional<at::Layout> layout,
                   std::optional<bool> pinned) {
  if (device) guard().setDevice(*device);
  TORCH_CHECK_NOT_IMPLEMENTED(layout.value_or(at::kStrided) == at::kStrided,
                              "the simulated device has only dense tensors");
  TORCH_CHECK(!pinned.value_or(false), "only memory of the CPU can be pinned");
}

at::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> type,
                 std::optional<at::Layout> layout, std::optional<at::Device> device,
                 std::optional<bool> pinned, std::optional<at::MemoryFormat> format) {
  require_plain(device, layout, pinned);
  return at::detail::empty_generic(size, &allocator(),
                                   c10::DispatchKeySet(DispatchKey::PrivateUse1),
                                   at::dtype_or_default(type), format);
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride,
                         std::optional<at::ScalarType> type, std::optional<at::Layout> layout,
                         std::optional<at::Device> device, std::optional<bool> pinned) {
  require_plain(device, layout, pinned);
  return at::detail::empty_strided_generic(size, stride, &allocator(),
                                           c10::DispatchKeySet(DispatchKey::PrivateUse1),
                                           at::dtype_or_default(type));
}

/// Zeros without bytes, of which most ops make something without reading them.
at::Tensor zeros_without_bytes(at::IntArrayRef size, std::optional<at::ScalarType> type,
                               std::optional<at::Layout> layout, std::optional<at::Device> device,
                               std::optional<bool> pinned) {
  require_plain(device, layout, pinned);
  static at::native::ZeroTensorAllocator no_bytes(kDevice);
  const c10::DispatchKeySet keys{DispatchKey::PrivateUse1, DispatchKey::ZeroTensor};
  return at::detail::empty_generic(size, &no_bytes, keys, at::dtype_or_default(type), std::nullopt);
}

at::Tensor& set_to_nothing(at::Tensor& self) {
  const c10::Storage nothing(c10::Storage::use_byte_size_t(), 0, allocator().allocate(0),
                             &allocator(), true);
  return at::native::set_storage_cpu_(self, nothing, 0, {0}, {});
}

void record_stream(at::Tensor& self, c10::Stream stream) {
  state().memory.use(self.storage().data(), stream.id());
}

/// Its second result, the sizes of the batches, is on the CPU whatever the device is.
void pack_padded_sequence(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                          torch::jit::Stack* stack) {
  run_on_host(op, keys, stack);
  stack->back() = stack->back().toTensor().to(at::kCPU);
}

void refuse_sparse(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack*) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, "the simulated device has only dense tensors, and '",
                              op.schema().name(), "' needs sparse ones; give sparse=False");
}

/// The CPU's dropout. The framework's own takes a fused kernel, which draws other numbers, for any
/// device but the CPU.
at::Tensor dropout(const at::Tensor& input, double p, bool train) {
  if (!train || p <= 0 || p >= 1 || input.sym_numel() == 0) {
    return at::native::dropout(input, p, train);
  }
  at::Tensor noise = at::empty_like(input).bernoulli_(1 - p);
  noise.div_(1 - p);
  return input * noise;
}

/// Whether one tensor can become the other, as `parameter.data = moved` does: the framework's own
/// answer is no for devices that it does not know, and modules would not keep shared parameters.
bool has_compatible_type(const at::Tensor& self, const at::Tensor& from) {
  return (is_plain(self) && is_plain(from)) ||
         self.unsafeGetTensorImpl()->has_compatible_shallow_copy_type(from.key_set());
}

std::vector<std::int64_t> numbers(c10::SymIntArrayRef values) {
  std::vector<std::int64_t> numbers;
  for (const c10::SymInt& value : values) numbers.push_back(value.guard_int(__FILE__, __LINE__));
  return numbers;
}

/// A CPU tensor without bytes, also for one that a tracer has.
at::Tensor shape_of(const at::Tensor& tensor) {
  c10::Storage nothing(c10::Storage::use_byte_size_t(), 0,
                       c10::DataPtr(nullptr, c10::Device(at::kCPU)), nullptr, false);
  at::Tensor shape = at::detail::make_tensor<c10::TensorImpl>(
      std::move(nothing), c10::DispatchKeySet(DispatchKey::CPU), tensor.dtype());
  shape.unsafeGetTensorImpl()->set_sizes_and_strides(numbers(tensor.sym_sizes()),
                                                     numbers(tensor.sym_strides()));
  return shape.set_requires_grad(tensor.requires_grad());
}

/// Attention by the kernels that the CPU would take.
std::int64_t choose_attention(const at::Tensor& query, const at::Tensor& key,
                              const at::Tensor& value, const std::optional<at::Tensor>& mask,
                              double dropout, bool is_causal, std::optional<double> scale,
                              bool grouped) {
  const bool is_masked = mask.has_value() && mask->defined();
  const auto mask_shape = is_masked ? std::optional(shape_of(*mask)) : std::nullopt;
  return at::_ops::_fused_sdp_choice::redispatch(c10::DispatchKeySet(DispatchKey::CPU),
                                                 shape_of(query), shape_of(key), shape_of(value),
                                                 mask_shape, dropout, is_causal, scale, grouped);
}

/// Ops with kernels of our own: what the CPU's would do to a view of the storage is not enough.
const std::set<std::string> kOwn = {"empty.memory_format",
                                    "empty_strided",
                                    "as_strided",
                                    "view",
                                    "_reshape_alias",
                                    "unfold",
                                    "set_.source_Storage_storage_offset",
                                    "set_.source_Storage",
                                    "set_.source_Tensor",
                                    "set_",
                                    "_efficientzerotensor",
                                    "record_stream",
                                    "_pack_padded_sequence",
                                    "_copy_from",
                                    "_copy_from_and_resize"};

void register_own(Library& aten) {
  aten.impl("empty.memory_format", &empty);
  aten.impl("empty_strided", &empty_strided);
  aten.impl("_efficientzerotensor", &zeros_without_bytes);
  aten.impl("as_strided", &at::native::as_strided_tensorimpl);
  aten.impl("view", &at::native::view);
  aten.impl("_reshape_alias", &at::native::_reshape_alias);
  aten.impl("unfold", &at::native::unfold);
  aten.impl("set_.source_Storage_storage_offset", &at::native::set_storage_cpu_);
  aten.impl("set_.source_Storage",
            static_cast<at::Tensor& (*)(at::Tensor&, at::Storage)>(&at::native::set_));
  aten.impl("set_.source_Tensor", &at::native::set_tensor_);
  aten.impl("set_", &set_to_nothing);
  aten.impl("record_stream", &record_stream);
  aten.impl("_copy_from", &copy_from);
  aten.impl("_copy_from_and_resize", &copy_from_and_resize);
  aten.impl("_pack_padded_sequence", CppFunction::makeFromBoxedFunction<&pack_padded_sequence>());
}

/// The CPU's kernels, also for ops that would be made of others on a device without one: the same
/// bits need the same kernels.
void register_those_of_cpu(Library& aten) {
  for (const OpName& op : aten_ops_with(DispatchKey::CPU)) {
    if (kOwn.contains(op.full)) continue;
    aten.impl(op.full.c_str(), CppFunction::makeFromBoxedFunction<&run_on_host>());
  }
  for (const char* op : {"convolution", "convolution_backward", "_convolution"}) {
    aten.impl(op, CppFunction::makeFromBoxedFunction<&run_on_host>());
  }
}

/// Ops that choose by the type of device which ops they are made of.
constexpr std::array kWhole = {"lstm.input",     "lstm.data",     "gru.input",      "gru.data",
                               "rnn_tanh.input", "rnn_tanh.data", "rnn_relu.input", "rnn_relu.data",
                               "lstm_cell",      "gru_cell",      "rnn_tanh_cell",  "rnn_relu_cell",
                               "_weight_norm"};
/// Ops whose gradients have another layout on the CPU than elsewhere.
constexpr std::array kWholeGradients = {"native_group_norm"};

template <typename Kernel>
WholeOnHost::Kernel boxed(Kernel kernel) {
  return
      [kernel = std::move(kernel)](const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                                   torch::jit::Stack* stack) { kernel.callBoxed(op, keys, stack); };
}

/// What a tracer gets of an op that is run whole.
WholeOnHost::Kernel traced_kernel(const std::string& op, DispatchKey key) {
  using c10::KernelFunction;
  if (op == "lstm_cell") {
    return boxed(KernelFunction::makeFromUnboxedRuntimeFunction(&lstm_cell_of_parts));
  }
  if (op == "gru_cell") {
    return boxed(KernelFunction::makeFromUnboxedRuntimeFunction(&gru_cell_of_parts));
  }
  return boxed(aten_kernel(op, key));
}

void register_whole(Library& library, DispatchKey key, const char* op, WholeOnHost::When when) {
  library.impl(op, CppFunction::makeFromBoxedFunctor(
                       std::make_unique<WholeOnHost>(traced_kernel(op, key), when)));
}

void register_composites(Library& library, DispatchKey key) {
  library.impl("dropout", &dropout);
  library.impl("_thnn_fused_lstm_cell", &fused_lstm_cell);
  library.impl("_thnn_fused_gru_cell", &fused_gru_cell);
  library.impl("_has_compatible_shallow_copy_type", &has_compatible_type);
  for (const char* op : kWhole) register_whole(library, key, op, WholeOnHost::When::always);
}

void register_gradients(Library& library, DispatchKey key) {
  for (const char* op : kWholeGradients) {
    register_whole(library, key, op, WholeOnHost::When::gradients_in_other_layouts);
  }
}

/// Conjugates and negatives are resolved by copies, so copies take them as they are.
void pass_to_copies(Library& aten) {
  aten.impl("_copy_from", CppFunction::makeFallthrough());
  aten.impl("_copy_from_and_resize", CppFunction::makeFallthrough());
}

/// Kernels stay registered as long as their library lives: until the end of the process.
Library& new_library(const char* name, DispatchKey key) {
  return *new Library(Library::IMPL, name, key, __FILE__, __LINE__);
}

}  // namespace

void register_kernels() {
  new_library("_", DispatchKey::PrivateUse1)
      .fallback(CppFunction::makeFromBoxedFunction<&run_on_host>());
  Library& aten = new_library("aten", DispatchKey::PrivateUse1);
  register_own(aten);
  register_those_of_cpu(aten);
  // Autograd first: its own kernels are others where the device has a kernel.
  Library& autograd = new_library("aten", DispatchKey::AutogradPrivateUse1);
  register_composites(autograd, DispatchKey::AutogradPrivateUse1);
  register_gradients(autograd, DispatchKey::AutogradPrivateUse1);
  register_composites(aten, DispatchKey::PrivateUse1);
  for (const DispatchKey key : {DispatchKey::Conjugate, DispatchKey::Negative}) {
    pass_to_copies(new_library("aten", key));
  }
  for (const DispatchKey key :
       {DispatchKey::SparsePrivateUse1, DispatchKey::SparseCsrPrivateUse1}) {
    new_library("_", key).fallback(CppFunction::makeFromBoxedFunction<&refuse_sparse>());
  }
  at::native::_fused_sdp_choice_stub.set_privateuse1_dispatch_ptr(&choose_attention);
}

}  // namespace lowtide::simulated
