#include <fmt/format.h>

#include <optional>

#include "autodiff/gradient.h"
#include "builder/functions.h"
#include "models/loss_scaler.h"
#include "models/model.h"

namespace lowtide::models {
namespace {

/// "gpt-b4", and "gpt-b4-bf16" for another precision than f32.
std::string graph_name(const Model& model, const ModelOptions& complete,
                       const Precision& precision) {
  check(precision);
  const std::string name = fmt::format("{}-b{}", model.name, complete.batch);
  if (precision.compute == DType::f32) return name;
  return fmt::format("{}-{}", name, precision_name(precision.compute));
}

/// A model and its loss, before anything is derived from them.
ModelParts built(Builder& builder, const Model& model, const ModelOptions& complete,
                 const Precision& precision) {
  const Builder::Autocast autocast(builder, precision.compute);
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
                     const OptimizerOptions& optimizer, const Precision& precision) {
  const ModelOptions complete = with_defaults(model, options);
  Builder builder(graph_name(model, complete, precision));
  const ModelParts parts = built(builder, model, complete, precision);
  builder.set_phase(Phase::backward);
  const std::vector<Value> parameters = builder.parameters();
  std::optional<LossScaler> scaler;
  if (precision.compute == DType::f16) scaler.emplace(builder, precision.loss_scale);
  std::vector<Value> seeds;
  if (scaler) seeds.push_back(scaler->seed());
  std::vector<Value> gradients = autodiff::gradient(std::span(&parts.loss, 1), parameters, seeds);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Value adjoint = scaler ? scaler->unscaled(gradients[i]) : gradients[i];
    gradients[i] = own_gradient(builder, parameters[i], adjoint);
  }
  const Value found_inf = scaler ? scaler->found_inf() : Value();
  append_optimizer(builder, parameters, gradients, optimizer, found_inf);
  if (scaler) scaler->append_update(found_inf);
  return builder.build({parts.loss});
}

Graph inference_graph(const Model& model, const ModelOptions& options, const Precision& precision) {
  ModelOptions complete = with_defaults(model, options);
  if (options.dropout < 0 && complete.dropout > 0) complete.dropout = 0;
  Builder builder(fmt::format("{}-forward", graph_name(model, complete, precision)));
  const ModelParts parts = built(builder, model, complete, precision);
  return builder.build({parts.loss, parts.output});
}

}  // namespace lowtide::models
