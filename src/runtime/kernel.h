#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <memory>
#include <span>
#include <vector>

#include "graph/graph.h"

namespace lowtide::runtime {

/// One op of a graph bound to its kernel: resolves the ATen name once, then runs any number of
/// times through the dispatcher below autograd.
class Kernel {
 public:
  /// `device`: where ops that make tensors of nothing make them. Throws InputError when LibTorch
  /// has no such op or the arguments do not fit its schema.
  explicit Kernel(const Op& op, c10::Device device = c10::Device(c10::kCPU));
  Kernel(Kernel&&) noexcept;
  Kernel& operator=(Kernel&&) noexcept;
  ~Kernel();

  /// `inputs` in the order of op.inputs. With `withhold_mutated`, the optional arguments that the
  /// op would write are passed as None (for a second execution). Results flattened (tensor lists
  /// too) in the order of op.outputs: undefined results and those that are a mutated input are
  /// left out. Throws Error that names the op when the kernel fails; an error
  /// of LibTorch for an index, a value, a type or what is not implemented keeps its class.
  std::vector<at::Tensor> run(std::span<const at::Tensor> inputs,
                              bool withhold_mutated = false) const;

  /// The same for a loop that runs many small ops: inputs by address, results into a reused vector.
  /// Not thread-safe.
  void run(std::span<const at::Tensor* const> inputs, bool withhold_mutated,
           std::vector<at::Tensor>& results) const;

  /// Whether all inputs that the op mutates can be withheld, so that it may run again.
  bool can_withhold_mutated() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lowtide::runtime
