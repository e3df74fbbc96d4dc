#include "autodiff/gradient.h"

#include <fmt/format.h>

#include "autodiff/reverse.h"
#include "base/error.h"
#include "builder/functions.h"

namespace lowtide::autodiff {
namespace {

/// Appends to the backward phase while it lives.
class BackwardPhase {
 public:
  explicit BackwardPhase(Builder& builder) : builder_(builder), before_(builder.phase()) {
    builder_.set_phase(Phase::backward);
  }
  ~BackwardPhase() { builder_.set_phase(before_); }
  BackwardPhase(const BackwardPhase&) = delete;
  BackwardPhase& operator=(const BackwardPhase&) = delete;

 private:
  Builder& builder_;
  Phase before_;
};

std::string describe(Value value) {
  return value.builder().data().tensors[static_cast<std::size_t>(value.id())].name;
}

void check(const Builder& builder, std::span<const Value> values, std::string_view what) {
  for (Value value : values) {
    if (!value) throw InputError(fmt::format("gradient: an {} is an empty value", what));
    if (&value.builder() != &builder) {
      throw InputError(
          fmt::format("gradient: {} {} belongs to another builder", what, describe(value)));
    }
    if (!is_floating(value.dtype())) {
      throw InputError(fmt::format("gradient: {} {} is of type {}; only floating types have one",
                                   what, describe(value), name(value.dtype())));
    }
  }
}

std::vector<Value> ones(std::span<const Value> outputs) {
  std::vector<Value> seeds;
  for (Value output : outputs) {
    if (output.type().elements() != 1) {
      throw InputError(fmt::format("gradient: output {} is no scalar; give a seed of its shape",
                                   describe(output)));
    }
    seeds.push_back(full(output.builder(), output.shape(), 1, output.dtype()));
  }
  return seeds;
}

void check_seeds(std::span<const Value> outputs, std::span<const Value> seeds) {
  if (seeds.size() != outputs.size()) {
    throw InputError(
        fmt::format("gradient: {} seeds for {} outputs", seeds.size(), outputs.size()));
  }
  for (std::size_t k = 0; k < seeds.size(); ++k) {
    if (seeds[k].shape() == outputs[k].shape() && seeds[k].dtype() == outputs[k].dtype()) continue;
    throw InputError(fmt::format("gradient: the seed of {} differs from it in shape or type",
                                 describe(outputs[k])));
  }
}

}  // namespace

std::vector<Value> gradient(std::span<const Value> outputs, std::span<const Value> inputs,
                            std::span<const Value> seeds) {
  if (inputs.empty()) return {};
  Builder& builder = inputs.front().builder();
  check(builder, inputs, "input");
  check(builder, outputs, "output");
  check(builder, seeds, "seed");
  const BackwardPhase phase(builder);
  const std::vector<Value> weights =
      seeds.empty() ? ones(outputs) : std::vector<Value>(seeds.begin(), seeds.end());
  check_seeds(outputs, weights);
  std::vector<Value> result = reverse_sweep(builder, 0, outputs, inputs, weights);
  for (std::size_t k = 0; k < result.size(); ++k) {
    if (!result[k]) result[k] = full(builder, inputs[k].shape(), 0, inputs[k].dtype());
  }
  return result;
}

std::vector<Value> gradient(Value output, std::span<const Value> inputs) {
  return gradient(std::span<const Value>(&output, 1), inputs);
}

}  // namespace lowtide::autodiff
