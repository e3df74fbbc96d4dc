#include "fake_cuda/recurrent.h"

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/native/RNN.h>
#include <torch/library.h>

#include <tuple>

namespace lowtide::fake_cuda {
namespace {

using at::Tensor;

/// While it lives, PyTorch looks for no cuDNN.
class WithoutCudnn {
 public:
  WithoutCudnn() : was_(at::globalContext().userEnabledCuDNN()) {
    at::globalContext().setUserEnabledCuDNN(false);
  }
  ~WithoutCudnn() { at::globalContext().setUserEnabledCuDNN(was_); }
  WithoutCudnn(const WithoutCudnn&) = delete;
  WithoutCudnn& operator=(const WithoutCudnn&) = delete;

 private:
  bool was_;
};

void lstm(Tensor& output, Tensor& hidden, Tensor& cell, const Tensor& input, at::TensorList before,
          at::TensorList params, bool biases, std::int64_t layers, double dropout, bool train,
          bool bidirectional, bool batch_first) {
  const WithoutCudnn without;
  std::tie(output, hidden, cell) =
      at::lstm(input, before, params, biases, layers, dropout, train, bidirectional, batch_first);
}

template <auto kLayer>
void by_cells(Tensor& output, Tensor& hidden, const Tensor& input, const Tensor& before,
              at::TensorList params, bool biases, std::int64_t layers, double dropout, bool train,
              bool bidirectional, bool batch_first) {
  const WithoutCudnn without;
  std::tie(output, hidden) =
      kLayer(input, before, params, biases, layers, dropout, train, bidirectional, batch_first);
}

// at::gru and the others have a second form, for packed sequences.
constexpr auto kGru = [](auto&&... arguments) { return at::gru(arguments...); };
constexpr auto kTanh = [](auto&&... arguments) { return at::rnn_tanh(arguments...); };
constexpr auto kRelu = [](auto&&... arguments) { return at::rnn_relu(arguments...); };

using OptionalTensor = std::optional<Tensor>;

// PyTorch tells the shapes of the fused cell of an LSTM, and not of that of a GRU (its kernels are
// in aten/src/ATen/native/cuda/RNN.cu): three gates of the hidden size, and five numbers for each
// that the backward pass reads.
constexpr std::int64_t kGates = 3, kSaved = 5;

std::tuple<Tensor, Tensor> gru_cell(const Tensor&, const Tensor&, const Tensor& hidden,
                                    const OptionalTensor&, const OptionalTensor&) {
  return {at::empty_like(hidden, at::MemoryFormat::Contiguous),
          at::empty({hidden.size(0), kSaved * hidden.size(1)}, hidden.options())};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_cell_backward(const Tensor& gradient,
                                                                     const Tensor& /*saved*/,
                                                                     bool has_bias) {
  const std::int64_t rows = gradient.size(0), width = kGates * gradient.size(1);
  const auto gates = [&] { return at::empty({rows, width}, gradient.options()); };
  const auto bias = [&] { return has_bias ? at::empty({width}, gradient.options()) : Tensor(); };
  return {gates(), gates(), at::empty_like(gradient, at::MemoryFormat::Contiguous), bias(), bias()};
}

}  // namespace

void install_recurrent() {
  static torch::Library library(torch::Library::IMPL, "aten", c10::DispatchKey::Meta, __FILE__,
                                __LINE__);
  library.impl("_thnn_fused_gru_cell", &gru_cell);
  library.impl("_thnn_fused_gru_cell_backward", &gru_cell_backward);
  at::native::lstm_cudnn_stub.set_cuda_dispatch_ptr(&lstm);
  at::native::gru_cudnn_stub.set_cuda_dispatch_ptr(&by_cells<kGru>);
  at::native::rnn_tanh_cudnn_stub.set_cuda_dispatch_ptr(&by_cells<kTanh>);
  at::native::rnn_relu_cudnn_stub.set_cuda_dispatch_ptr(&by_cells<kRelu>);
}

}  // namespace lowtide::fake_cuda
