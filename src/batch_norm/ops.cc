#include "batch_norm/ops.h"

#include <ATen/ops/cudnn_batch_norm.h>
#include <ATen/ops/cudnn_batch_norm_backward.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <array>
#include <tuple>

#include "device/own_ops.h"

namespace lowtide::batch_norm {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;

Three forward(const Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
              const OptionalTensor& running_mean, const OptionalTensor& running_variance,
              bool training, double momentum, double epsilon) {
  TORCH_CHECK(weight.has_value() && bias.has_value(), "cuDNN's batch norm needs weight and bias");
  auto [result, mean, deviation, reserve] = at::cudnn_batch_norm(
      input, *weight, bias, running_mean, running_variance, training, momentum, epsilon);
  TORCH_CHECK(reserve.numel() == 0, "cuDNN keeps a reserve for the backward pass here");
  return {std::move(result), std::move(mean), std::move(deviation)};
}

Three no_training(const Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                  const Tensor& running_mean, const Tensor& running_variance, double momentum,
                  double epsilon) {
  return forward(input, weight, bias, running_mean, running_variance, false, momentum, epsilon);
}

/// Of a forward pass in training. The running statistics are not read.
Three backward(const Tensor& gradient, const Tensor& input, const OptionalTensor& weight,
               const OptionalTensor& /*running_mean*/, const OptionalTensor& /*running_variance*/,
               const OptionalTensor& mean, const OptionalTensor& deviation, bool training,
               double epsilon, std::array<bool, 3> mask) {
  TORCH_CHECK(training && weight.has_value(), "this is for training, with a weight");
  const Tensor reserve = at::empty({0}, input.options().dtype(at::kByte));
  auto [of_input, of_weight, of_bias] =
      at::cudnn_batch_norm_backward(input, gradient.contiguous(input.suggest_memory_format()),
                                    *weight, {}, {}, mean, deviation, epsilon, reserve);
  return {mask[0] ? of_input : Tensor(), mask[1] ? of_weight : Tensor(),
          mask[2] ? of_bias : Tensor()};
}

bool define_all() {
  using device::define_op;
  define_op(
      "cudnn_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? "
      "running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
      TORCH_FN(forward));
  define_op(
      "cudnn_batch_norm_no_training(Tensor input, Tensor? weight, Tensor? bias, Tensor "
      "running_mean, Tensor running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
      TORCH_FN(no_training));
  define_op(
      "cudnn_batch_norm_backward(Tensor grad_out, Tensor input, Tensor? weight, Tensor? "
      "running_mean, Tensor? running_var, Tensor? save_mean, Tensor? save_invstd, bool train, "
      "float eps, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
      TORCH_FN(backward));
  return true;
}

}  // namespace

void register_ops() { [[maybe_unused]] static const bool are_defined = define_all(); }

}  // namespace lowtide::batch_norm
