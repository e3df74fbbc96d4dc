#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

namespace lowtide::simulated {

/// The cells of recurrent models that the framework fuses for any device but the CPU, made of ops
/// that the CPU has. Only graphs that a tracer makes have them: models that run are run whole, as
/// the CPU runs them. The last result, which only a fused gradient would read, is empty.
std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell_of_parts(
    const at::Tensor& input_gates, const at::Tensor& hidden_gates, const at::Tensor& cell,
    const std::optional<at::Tensor>& input_bias, const std::optional<at::Tensor>& hidden_bias);
std::tuple<at::Tensor, at::Tensor> gru_cell_of_parts(const at::Tensor& input_gates,
                                                     const at::Tensor& hidden_gates,
                                                     const at::Tensor& hidden,
                                                     const std::optional<at::Tensor>& input_bias,
                                                     const std::optional<at::Tensor>& hidden_bias);

}  // namespace lowtide::simulated
