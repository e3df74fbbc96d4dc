#include "fake_cuda/attention.h"

#include <ATen/Context.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>

#include <cmath>

namespace lowtide::fake_cuda {
namespace {

using Backend = at::SDPBackend;

/// A call of scaled_dot_product_attention, and the device for which it is.
struct Call {
  const sdp::sdp_params& params;
  Capability device;
  bool is_amd;

  const at::Tensor& query() const { return params.query; }
  bool is_half() const {
    return query().scalar_type() == at::kHalf || query().scalar_type() == at::kBFloat16;
  }
  bool has_one_dtype() const {
    return query().scalar_type() == params.key.scalar_type() &&
           query().scalar_type() == params.value.scalar_type();
  }
  bool is_hopper_or_newer_server() const {
    return !is_amd && (device.major == 9 || device.major == 10);
  }
};

// The rules of aten/src/ATen/native/transformers/cuda/sdp_utils.cpp of PyTorch, whose functions
// have the same names less `check_`, for dense tensors of known sizes on devices with sm80 or more.
// Rules that hold for CPUs too are PyTorch's own, of sdp_utils_cpp.h.

bool common_rules(const Call& call) {
  const sdp::sdp_params& params = call.params;
  return sdp::has_only_dense_inputs(params) && sdp::check_tensor_shapes(params, false) &&
         sdp::check_nonzero_sequence_lengths_dense(params, false) && call.has_one_dtype();
}

bool same_head_dim(const Call& call) {
  const std::int64_t size = call.query().size(-1);
  return size == call.params.key.size(-1) && size == call.params.value.size(-1);
}

/// The backward pass of flash attention does not fit into the shared memory of sm86 to sm89 and of
/// sm120.
bool flash_head_dim_has_gradient(const Call& call) {
  const bool is_small = (call.device.major == 8 && call.device.minor >= 6) ||
                        (call.device.major == 12 && call.device.minor <= 1);
  if (!sdp::input_requires_grad(call.params) || !is_small || call.is_amd) return true;
  const std::int64_t size = call.query().size(-1);
  return size <= 192 || (call.params.dropout == 0 && size > 224);
}

bool flash_causal_is_square(const Call& call) {
  return !call.params.is_causal || call.query().size(-2) == call.params.key.size(-2);
}

bool can_use_flash_attention(const Call& call) {
  return common_rules(call) && sdp::check_runtime_disabled_flash(call.params, false) &&
         sdp::check_for_attn_mask(call.params, false) && same_head_dim(call) &&
         call.query().size(-1) <= 256 && flash_head_dim_has_gradient(call) &&
         flash_causal_is_square(call) && call.is_half() &&
         sdp::check_batch_size_and_num_heads_dense<true>(call.params, false) &&
         sdp::check_last_dim_stride_equals_1_dense<true>(call.params, false);
}

/// Rows of so many elements are what the matrix units read at once, and addresses must be
/// multiples.
std::int64_t gemm_alignment(const Call& call) { return call.is_half() ? 8 : 4; }

bool starts_aligned(const Call& call, const at::Tensor& tensor) {
  return tensor.numel() == 0 || tensor.storage_offset() % gemm_alignment(call) == 0;
}

bool can_use_mem_efficient_attention(const Call& call) {
  const sdp::sdp_params& params = call.params;
  const std::int64_t size = call.query().size(-1), alignment = gemm_alignment(call);
  const bool has_heads = call.is_amd
                             ? sdp::check_batch_size_and_num_heads_dense<false>(params, false)
                             : sdp::check_batch_size_and_num_heads_dense<true>(params, false);
  return common_rules(call) && sdp::check_runtime_disabled_mem_efficient(params, false) &&
         (call.is_half() || call.query().scalar_type() == at::kFloat) && size > 0 &&
         size == params.key.size(-1) && size % alignment == 0 &&
         params.value.size(-1) % alignment == 0 && starts_aligned(call, params.query) &&
         starts_aligned(call, params.key) && starts_aligned(call, params.value) &&
         sdp::check_last_dim_stride_equals_1_dense<false>(params, false) && has_heads;
}

bool cudnn_head_dims(const Call& call) {
  const std::int64_t of_query = call.query().size(-1), of_value = call.params.value.size(-1);
  const bool is_of_deepseek =
      call.is_hopper_or_newer_server() && of_query == 192 && of_value == 128;
  return of_query % 8 == 0 && of_value % 8 == 0 &&
         ((of_query <= 128 && of_value <= 128) || is_of_deepseek);
}

bool can_use_cudnn_attention(const Call& call) {
  const sdp::sdp_params& params = call.params;
  const at::Context& context = at::globalContext();
  const bool may_differ =
      !context.deterministicAlgorithms() || context.deterministicAlgorithmsWarnOnly();
  return !call.is_amd && common_rules(call) && context.userEnabledCuDNNSDP() && may_differ &&
         call.is_half() && sdp::check_attn_mask_shape(params, false) &&
         params.dropout * 16 == std::floor(params.dropout * 16) &&
         sdp::check_last_dim_stride_equals_1_dense<true>(params, false) &&
         sdp::check_batch_size_and_num_heads_dense<true, false>(params, false) &&
         cudnn_head_dims(call) && params.key.size(2) != 1 &&
         (params.dropout == 0 || call.query().size(2) != 1);
}

bool can_use(Backend backend, const Call& call) {
  switch (backend) {
    case Backend::cudnn_attention: return can_use_cudnn_attention(call);
    case Backend::flash_attention: return can_use_flash_attention(call);
    case Backend::efficient_attention: return can_use_mem_efficient_attention(call);
    case Backend::math: return at::globalContext().userEnabledMathSDP();
    default: return false;
  }
}

Capability device;
bool device_is_amd = false;

/// The first kernel of PyTorch's order that can.
std::int64_t choose(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                    const std::optional<at::Tensor>& mask, double dropout, bool is_causal,
                    std::optional<double> /*scale*/, bool enable_gqa) {
  const sdp::sdp_params params{query, key, value, mask, dropout, is_causal, enable_gqa};
  const Call call{params, device, device_is_amd};
  for (const Backend backend : at::globalContext().sDPPriorityOrder()) {
    if (can_use(backend, call)) return static_cast<std::int64_t>(backend);
  }
  TORCH_CHECK(false, "No available kernel. Aborting execution.");
}

}  // namespace

void install_attention(Capability capability, bool is_amd) {
  device = capability;
  device_is_amd = is_amd;
  at::native::_fused_sdp_choice_stub.set_cuda_dispatch_ptr(&choose);
  // As priority_order() of sdp_utils.cpp: on H100, H200 and B200, cuDNN's kernel goes first.
  if (is_amd || (capability.major != 9 && capability.major != 10)) return;
  std::vector<std::int64_t> order;
  for (Backend backend : {Backend::cudnn_attention, Backend::flash_attention,
                          Backend::efficient_attention, Backend::math}) {
    order.push_back(static_cast<std::int64_t>(backend));
  }
  at::globalContext().setSDPPriorityOrder(order);
}

}  // namespace lowtide::fake_cuda
