#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "build/builder.h"

namespace lowtide {

/// Appends to the graph the gradients of sum_k <outputs[k], seeds[k]> with respect to each of
/// `inputs`, in reverse topological order, adding up the adjoints of shared uses (reverse-mode
/// automatic differentiation; Griewank and Walther, "Evaluating Derivatives", 2008). The result is
/// ordinary values of the graph, so gradient() applies to it again: Hessians are gradients of
/// gradients.
///
/// `seeds` may be empty: then each output must be a scalar and its seed is 1. An input on which no
/// output depends gets zeros. Throws InputError that names the op when a derivative is needed
/// through an op without a rule.
std::vector<Value> gradient(std::span<const Value> outputs, std::span<const Value> inputs,
                            std::span<const Value> seeds = {});

/// The same for one scalar output.
std::vector<Value> gradient(Value output, std::span<const Value> inputs);

/// What the gradient rule of an op sees.
struct RuleContext {
  Builder& builder;
  const Op& op;                    ///< a copy that stays valid while ops are appended
  std::vector<Value> inputs;       ///< op.inputs as values
  std::vector<Value> outputs;      ///< op.outputs as values
  std::vector<Value> adjoints;     ///< of each output; an empty Value for zero
  std::vector<bool> wanted;        ///< which inputs need an adjoint

  /// The tensor at schema argument i; empty when None.
  Value arg(std::size_t i) const;
  bool needs(std::size_t i) const;  ///< whether the tensor at schema argument i is wanted
};

/// An adjoint for the tensor at one position of op.inputs.
struct InputAdjoint {
  int position;
  Value value;
};

/// The gradient rule of one ATen op: returns the adjoints of the wanted inputs.
struct GradientRule {
  std::string_view type;
  std::vector<InputAdjoint> (*apply)(const RuleContext& context);
};

const GradientRule* find_gradient_rule(std::string_view type);
std::vector<std::string> differentiable_ops();

}  // namespace lowtide
