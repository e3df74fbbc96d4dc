#include "fake_cuda/recurrent.h"

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/native/RNN.h>

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
  std::tie(output, hidden, cell) = at::lstm(input, before, params, biases, layers, dropout, train,
                                            bidirectional, batch_first);
}

template <auto kLayer>
void by_cells(Tensor& output, Tensor& hidden, const Tensor& input, const Tensor& before,
              at::TensorList params, bool biases, std::int64_t layers, double dropout, bool train,
              bool bidirectional, bool batch_first) {
  const WithoutCudnn without;
  std::tie(output, hidden) = kLayer(input, before, params, biases, layers, dropout, train,
                                    bidirectional, batch_first);
}

// at::gru and the others have a second form, for packed sequences.
constexpr auto kGru = [](auto&&... arguments) { return at::gru(arguments...); };
constexpr auto kTanh = [](auto&&... arguments) { return at::rnn_tanh(arguments...); };
constexpr auto kRelu = [](auto&&... arguments) { return at::rnn_relu(arguments...); };

}  // namespace

void install_recurrent() {
  at::native::lstm_cudnn_stub.set_cuda_dispatch_ptr(&lstm);
  at::native::gru_cudnn_stub.set_cuda_dispatch_ptr(&by_cells<kGru>);
  at::native::rnn_tanh_cudnn_stub.set_cuda_dispatch_ptr(&by_cells<kTanh>);
  at::native::rnn_relu_cudnn_stub.set_cuda_dispatch_ptr(&by_cells<kRelu>);
}

}  // namespace lowtide::fake_cuda
