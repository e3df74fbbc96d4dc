#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <span>
#include <vector>

#include "graph/graph.h"

namespace lowtide::runtime {

/// One op of a graph bound to its kernel: resolves the ATen name once, then runs through the
/// dispatcher below autograd, as often as wanted.
class Kernel {
 public:
  /// Throws InputError when LibTorch has no such op or the arguments do not fit its schema.
  explicit Kernel(const Op& op);
  Kernel(Kernel&&) noexcept;
  Kernel& operator=(Kernel&&) noexcept;
  ~Kernel();

  /// `inputs` in the order of op.inputs. With `withhold_mutated`, the optional arguments that the
  /// op would write are passed as None (for a second execution). Results flattened (tensor lists
  /// too) in the order of op.outputs: undefined results and those that are a mutated input are
  /// left out. Throws Error that names the op when the kernel fails.
  std::vector<at::Tensor> run(std::span<const at::Tensor> inputs,
                              bool withhold_mutated = false) const;

  /// The same for a loop that runs many small ops: inputs by address, results into a vector that
  /// is used again. Not to be called from two threads at a time.
  void run(std::span<const at::Tensor* const> inputs, bool withhold_mutated,
           std::vector<at::Tensor>& results) const;

  /// Whether everything that the op mutates can be withheld, so that it may run a second time.
  bool can_withhold_mutated() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lowtide::runtime
