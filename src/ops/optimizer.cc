#include <fmt/format.h>

#include "ops/op_def.h"
#include "ops/shapes.h"

/// Ops that only write resident tensors: parameter updates and counters. The aliases that some of
/// them return are not outputs.
namespace lowtide::ops {
namespace {

using Outputs = std::vector<OutputType>;

/// Lists of as many tensors as there are parameters, each of its parameter's shape.
void check_lists(const OpCall& call, std::size_t lists) {
  const std::vector<TensorType> parameters = call.tensors(0);
  for (std::size_t i = 1; i < lists; ++i) {
    const std::vector<TensorType> list = call.tensors(i);
    if (list.empty()) continue;
    if (list.size() != parameters.size()) {
      refuse(call.type(), fmt::format("{} parameters, but argument {} lists {} tensors",
                                      parameters.size(), i, list.size()));
    }
    for (std::size_t k = 0; k < list.size(); ++k) {
      if (list[k].shape == parameters[k].shape) continue;
      refuse(call.type(),
             fmt::format("parameter {} has shape {}, but that of argument {} is {}", k,
                         format_shape(parameters[k].shape), i, format_shape(list[k].shape)));
    }
  }
}

Outputs sgd(const OpCall& call) {
  check_lists(call, 3);
  return {};
}

Outputs adam(const OpCall& call) {
  check_lists(call, 5);
  return {};
}

/// Argument 0 is updated in place with an operand that broadcasts to it.
Outputs in_place(const OpCall& call) {
  const Shape& self = call.tensor(0).shape;
  if (call.holds<TensorArg>(1) &&
      broadcast_shapes(call.type(), self, call.tensor(1).shape) != self) {
    refuse(call.type(), fmt::format("shape {} does not broadcast to {}",
                                    format_shape(call.tensor(1).shape), format_shape(self)));
  }
  return {};
}

/// Loss scaling: the scale and the steps since its last change, both scalars.
Outputs update_scale(const OpCall& call) {
  for (std::size_t i : {0, 1, 2}) {
    if (call.tensor(i).elements() != 1) {
      refuse(call.type(), fmt::format("argument {} of shape {} is no scalar", i,
                                      format_shape(call.tensor(i).shape)));
    }
  }
  return {};
}

/// kPerElement operations for each element of each parameter.
template <int kPerElement>
double update_flops(const OpCall& call, std::span<const OutputType>) {
  double elements = 0;
  for (const TensorType& parameter : call.tensors(0)) {
    elements += static_cast<double>(parameter.elements());
  }
  return kPerElement * elements;
}

double per_element(const OpCall& call, std::span<const OutputType>) {
  return static_cast<double>(call.tensor(0).elements());
}

OpDef sgd_like(std::string_view type) {
  return {.type = type,
          .infer = sgd,
          .recomputable = false,
          .mutates = {0, 2},
          .flops = update_flops<4>};
}

OpDef adam_like(std::string_view type) {
  return {.type = type,
          .infer = adam,
          .recomputable = false,
          .mutates = {0, 2, 3, 4},
          .flops = update_flops<12>};
}

OpDef in_place_op(std::string_view type) {
  return {
      .type = type, .infer = in_place, .recomputable = false, .mutates = {0}, .flops = per_element};
}

}  // namespace

std::span<const OpDef> optimizer_ops() {
  static const OpDef defs[] = {
      sgd_like("aten::_fused_sgd_"),
      sgd_like("aten::_fused_sgd_.tensor_lr"),
      adam_like("aten::_fused_adam_"),
      adam_like("aten::_fused_adam_.tensor_lr"),
      adam_like("aten::_fused_adamw_"),
      adam_like("aten::_fused_adamw_.tensor_lr"),
      in_place_op("aten::add_.Scalar"),
      in_place_op("aten::add_.Tensor"),
      in_place_op("aten::mul_.Tensor"),
      in_place_op("aten::copy_"),
      {.type = "aten::_amp_update_scale_",
       .infer = update_scale,
       .recomputable = false,
       .mutates = {0, 1},
       .flops = per_element},
  };
  return defs;
}

}  // namespace lowtide::ops
