#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

namespace lowtide::simulated {

// Cells of recurrent models, for graphs that a tracer makes. The framework's own take a fused
// kernel for any device but the CPU. Models that run are run whole, as the CPU runs them.

/// Cells of the ops that the CPU makes them of.
std::tuple<at::Tensor, at::Tensor> lstm_cell_of_parts(const at::Tensor& input,
                                                      at::TensorList hidden,
                                                      const at::Tensor& input_weight,
                                                      const at::Tensor& hidden_weight,
                                                      const std::optional<at::Tensor>& input_bias,
                                                      const std::optional<at::Tensor>& hidden_bias);
at::Tensor gru_cell_of_parts(const at::Tensor& input, const at::Tensor& hidden,
                             const at::Tensor& input_weight, const at::Tensor& hidden_weight,
                             const std::optional<at::Tensor>& input_bias,
                             const std::optional<at::Tensor>& hidden_bias);

/// The fused kernels, which layers of cells are made of, of ops that the CPU has. The last result,
/// which only a fused gradient would read, is empty.
std::tuple<at::Tensor, at::Tensor, at::Tensor> fused_lstm_cell(
    const at::Tensor& input_gates, const at::Tensor& hidden_gates, const at::Tensor& cell,
    const std::optional<at::Tensor>& input_bias, const std::optional<at::Tensor>& hidden_bias);
std::tuple<at::Tensor, at::Tensor> fused_gru_cell(const at::Tensor& input_gates,
                                                  const at::Tensor& hidden_gates,
                                                  const at::Tensor& hidden,
                                                  const std::optional<at::Tensor>& input_bias,
                                                  const std::optional<at::Tensor>& hidden_bias);

}  // namespace lowtide::simulated
