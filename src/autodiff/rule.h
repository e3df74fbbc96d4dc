#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "builder/builder.h"

namespace lowtide::autodiff {

/// The input of an op's gradient rule.
struct RuleContext {
  Builder& builder;
  const Op& op;                 ///< a copy that stays valid while ops are appended
  std::vector<Value> inputs;    ///< op.inputs as values
  std::vector<Value> outputs;   ///< op.outputs as values
  std::vector<Value> adjoints;  ///< of each output; an empty Value is zero; not all are empty
  std::vector<bool> wanted;     ///< which inputs need an adjoint

  /// The tensor at schema argument i; empty when None.
  Value arg(std::size_t i) const;
  bool needs(std::size_t i) const;  ///< whether the tensor at schema argument i is wanted
  /// Positions in op.inputs of the tensor list at schema argument i.
  const std::vector<int>& list(std::size_t i) const;
  /// Schema argument i as an argument for another op; None when it was left out.
  CallArg pass(std::size_t i) const;
  double number(std::size_t i, double otherwise) const;
  std::int64_t integer(std::size_t i, std::int64_t otherwise) const;
  bool flag(std::size_t i, bool otherwise) const;
  std::vector<std::int64_t> integers(std::size_t i) const;  ///< {} for None

  Value output() const { return outputs.front(); }
  /// The adjoint of the first output, for ops whose other outputs (statistics, indices) are not
  /// differentiable. Throws InputError when another output has an adjoint, too.
  Value adjoint() const;
  /// The adjoint of output k, zeros when it has none.
  Value adjoint_or_zeros(std::size_t k) const;
};

/// An adjoint for the tensor at one position of op.inputs. gradient() sums it over the dimensions
/// along which the tensor was broadcast and converts it to the tensor's dtype.
struct InputAdjoint {
  int position;
  Value value;
};

/// Collects the adjoints that a rule returns; computes only wanted ones:
///
///     return Adjoints(c).add(0, [&] { return g * c.arg(1); })
///                       .add(1, [&] { return g * c.arg(0); });
class Adjoints {
 public:
  explicit Adjoints(const RuleContext& context) : context_(context) {}

  /// `make()` is the adjoint of schema argument i; an empty Value stands for zero.
  template <typename Make>
  Adjoints& add(std::size_t i, Make make) {
    if (context_.needs(i)) push(i, make());
    return *this;
  }
  operator std::vector<InputAdjoint>() const { return list_; }

 private:
  void push(std::size_t i, Value value);

  const RuleContext& context_;
  std::vector<InputAdjoint> list_;
};

/// The gradient rule of one ATen op: returns the adjoints of the wanted inputs.
struct GradientRule {
  std::string_view type;
  std::vector<InputAdjoint> (*apply)(const RuleContext& context);
};

/// nullptr for an op that has none.
const GradientRule* find_gradient_rule(std::string_view type);

/// Differentiates an op through `primitives`, which computes the op's outputs from its inputs with
/// simpler ops (outputs without an adjoint may be empty). For second derivatives of fused backward
/// ops. The recomputed outputs themselves are dead values.
std::vector<InputAdjoint> differentiate_as(const RuleContext& context,
                                           std::vector<Value> (*primitives)(const RuleContext&));

/// Calls a backward op whose last argument is a mask of wanted results. Returns the results by
/// position, empty where not computed. Result k is the adjoint of schema argument arguments[k].
std::vector<Value> call_masked(const RuleContext& context, std::string_view type,
                               std::vector<CallArg> args, std::span<const std::size_t> arguments);

/// For the rule of such a backward op, which has outputs only for the wanted results: the output
/// index of each result, kNone for a result without output.
std::vector<std::int32_t> masked_outputs(const Op& op);

/// factor * x, without an op when factor is 1.
Value scaled(Value x, double factor);

/// Rule of an op whose derivative is zero wherever it exists.
std::vector<InputAdjoint> zero_rule(const RuleContext& context);

// One function per family; the registry in registry.cc lists them.
std::span<const GradientRule> pointwise_rules();
std::span<const GradientRule> activation_rules();
std::span<const GradientRule> view_rules();
std::span<const GradientRule> matrix_rules();
std::span<const GradientRule> convolution_rules();
std::span<const GradientRule> pooling_rules();
std::span<const GradientRule> normalization_rules();
std::span<const GradientRule> reduction_rules();
std::span<const GradientRule> indexing_rules();
std::span<const GradientRule> loss_rules();

}  // namespace lowtide::autodiff
