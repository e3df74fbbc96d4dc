#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "graph/graph.h"
#include "runtime/kernel.h"
#include "runtime/tensors.h"

namespace lowtide::testing {

/// Small numbers that every op accepts: reals near 1, indices below 3, truth values of all kinds.
inline at::Tensor sample(const Tensor& tensor) {
  const auto options = at::dtype(runtime::scalar_type(*tensor.dtype));
  if (*tensor.dtype == DType::boolean) return at::rand(tensor.shape).gt(0.5);
  if (!is_floating(*tensor.dtype)) return at::randint(0, 3, tensor.shape, options);
  return at::empty(tensor.shape, options).copy_(at::rand(tensor.shape, at::kDouble) + 0.25);
}

/// A graph that LibTorch itself runs op by op, keeping everything.
class Eager {
 public:
  explicit Eager(const GraphData& data) : data_(data), tensors_(data.tensors.size()) {
    at::manual_seed(7);
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      if (data.tensors[i].kind == Kind::resident) tensors_[i] = sample(data.tensors[i]);
    }
  }

  std::vector<at::Tensor> inputs(const Op& op) const {
    std::vector<at::Tensor> tensors;
    for (TensorId id : op.inputs) tensors.push_back(tensor(id));
    return tensors;
  }

  /// Runs the op, stores its results for later ops, and returns them.
  std::vector<at::Tensor> run(const Op& op) {
    std::vector<at::Tensor> results = runtime::Kernel(op).run(inputs(op));
    for (std::size_t i = 0; i < std::min(results.size(), op.outputs.size()); ++i) {
      tensors_[static_cast<std::size_t>(op.outputs[i])] = results[i];
    }
    return results;
  }

  const at::Tensor& tensor(TensorId id) const { return tensors_[static_cast<std::size_t>(id)]; }
  const Tensor& predicted(TensorId id) const {
    return data_.tensors[static_cast<std::size_t>(id)];
  }

 private:
  const GraphData& data_;
  std::vector<at::Tensor> tensors_;
};

}  // namespace lowtide::testing
