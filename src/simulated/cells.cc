#include "simulated/cells.h"

#include <ATen/ATen.h>

#include <vector>

namespace lowtide::simulated {
namespace {

at::Tensor with_bias(const at::Tensor& gates, const std::optional<at::Tensor>& bias) {
  return bias.has_value() && bias->defined() ? gates + *bias : gates;
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> lstm_cell_of_parts(
    const at::Tensor& input, at::TensorList hidden, const at::Tensor& input_weight,
    const at::Tensor& hidden_weight, const std::optional<at::Tensor>& input_bias,
    const std::optional<at::Tensor>& hidden_bias) {
  const at::Tensor gates = at::linear(hidden[0], hidden_weight, hidden_bias)
                               .add_(at::linear(input, input_weight, input_bias));
  const std::vector<at::Tensor> parts = gates.unsafe_chunk(4, 1);
  const at::Tensor in = parts[0].sigmoid_(), forget = parts[1].sigmoid_();
  const at::Tensor fresh = parts[2].tanh_(), out = parts[3].sigmoid_();
  const at::Tensor next = (forget * hidden[1]).add_(in * fresh);
  return {out * next.tanh(), next};
}

at::Tensor gru_cell_of_parts(const at::Tensor& input, const at::Tensor& hidden,
                             const at::Tensor& input_weight, const at::Tensor& hidden_weight,
                             const std::optional<at::Tensor>& input_bias,
                             const std::optional<at::Tensor>& hidden_bias) {
  const std::vector<at::Tensor> given =
      at::linear(input, input_weight, input_bias).unsafe_chunk(3, 1);
  const std::vector<at::Tensor> old =
      at::linear(hidden, hidden_weight, hidden_bias).unsafe_chunk(3, 1);
  const at::Tensor reset = old[0].add_(given[0]).sigmoid_();
  const at::Tensor update = old[1].add_(given[1]).sigmoid_();
  const at::Tensor fresh = given[2].add(old[2].mul_(reset)).tanh_();
  return (hidden - fresh).mul_(update).add_(fresh);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> fused_lstm_cell(
    const at::Tensor& input_gates, const at::Tensor& hidden_gates, const at::Tensor& cell,
    const std::optional<at::Tensor>& input_bias, const std::optional<at::Tensor>& hidden_bias) {
  const at::Tensor gates =
      with_bias(hidden_gates, hidden_bias) + with_bias(input_gates, input_bias);
  const std::vector<at::Tensor> parts = gates.chunk(4, 1);
  const at::Tensor next = parts[1].sigmoid() * cell + parts[0].sigmoid() * parts[2].tanh();
  return {parts[3].sigmoid() * next.tanh(), next, at::empty({0}, cell.options())};
}

std::tuple<at::Tensor, at::Tensor> fused_gru_cell(const at::Tensor& input_gates,
                                                  const at::Tensor& hidden_gates,
                                                  const at::Tensor& hidden,
                                                  const std::optional<at::Tensor>& input_bias,
                                                  const std::optional<at::Tensor>& hidden_bias) {
  const std::vector<at::Tensor> input = with_bias(input_gates, input_bias).chunk(3, 1);
  const std::vector<at::Tensor> old = with_bias(hidden_gates, hidden_bias).chunk(3, 1);
  const at::Tensor reset = (old[0] + input[0]).sigmoid();
  const at::Tensor update = (old[1] + input[1]).sigmoid();
  const at::Tensor fresh = (input[2] + old[2] * reset).tanh();
  return {(hidden - fresh) * update + fresh, at::empty({0}, hidden.options())};
}

}  // namespace lowtide::simulated
