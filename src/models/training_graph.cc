#include <fmt/format.h>

#include "autodiff/gradient.h"
#include "builder/functions.h"
#include "models/model.h"

namespace lowtide::models {
namespace {

/// A model and its loss, before anything is derived from them.
ModelParts built(Builder& builder, const Model& model, const ModelOptions& complete) {
  const ModelParts parts = model.build(builder, complete);
  builder.set_name(parts.output, "logits");
  builder.set_name(parts.loss, "loss");
  builder.set_role(parts.loss, Role::loss);
  return parts;
}

/// The gradient as a separate tensor in the parameter's layout: the update reads both as flat
/// arrays, and two parameters may share one adjoint.
Value own_gradient(Builder& builder, Value parameter, Value adjoint) {
  Value gradient = contiguous(adjoint);
  const auto& tensors = builder.data().tensors;
  if (tensors[static_cast<std::size_t>(gradient.id())].role != Role::none) {
    gradient = clone(gradient);
  }
  builder.set_role(gradient, Role::gradient, parameter.id());
  return gradient;
}

}  // namespace

Graph training_graph(const Model& model, const ModelOptions& options,
                     const OptimizerOptions& optimizer) {
  const ModelOptions complete = with_defaults(model, options);
  Builder builder(fmt::format("{}-b{}", model.name, complete.batch));
  const ModelParts parts = built(builder, model, complete);
  builder.set_phase(Phase::backward);
  const std::vector<Value> parameters = builder.parameters();
  std::vector<Value> gradients = autodiff::gradient(parts.loss, parameters);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    gradients[i] = own_gradient(builder, parameters[i], gradients[i]);
  }
  append_optimizer(builder, parameters, gradients, optimizer);
  return builder.build({parts.loss});
}

Graph inference_graph(const Model& model, const ModelOptions& options) {
  ModelOptions complete = with_defaults(model, options);
  if (options.dropout < 0 && complete.dropout > 0) complete.dropout = 0;
  Builder builder(fmt::format("{}-b{}-forward", model.name, complete.batch));
  const ModelParts parts = built(builder, model, complete);
  return builder.build({parts.loss, parts.output});
}

}  // namespace lowtide::models
