#pragma once

#include <span>
#include <string>
#include <vector>

#include "builder/builder.h"

namespace lowtide::autodiff {

/// Appends to the graph the gradients of sum_k <outputs[k], seeds[k]> with respect to each of
/// `inputs`, in reverse topological order, adding up the adjoints of shared uses (reverse-mode
/// automatic differentiation; Griewank and Walther, "Evaluating Derivatives", 2008). The results
/// are ordinary values of the graph, so gradient() applies to them again: Hessians are gradients of
/// gradients.
///
/// Each result has the shape and dtype of its input. Two results may be the same Value (both
/// addends of a sum get the sum's adjoint), and a result may be a seed. The appended ops belong to
/// the backward phase; the builder's phase is restored afterwards. The caller sets names and
/// roles.
///
/// `seeds` may be empty: then each output must be a scalar and its seed is 1. An input on which no
/// output depends gets zeros. Throws InputError that names the op when a derivative is needed
/// through an op without a rule or through a write in place, and for values that are not floating.
std::vector<Value> gradient(std::span<const Value> outputs, std::span<const Value> inputs,
                            std::span<const Value> seeds = {});

/// The same for one scalar output.
std::vector<Value> gradient(Value output, std::span<const Value> inputs);

/// Every op type that has a gradient rule, sorted.
std::vector<std::string> differentiable_ops();

}  // namespace lowtide::autodiff
