#include <fmt/format.h>

#include <optional>

#include "autodiff/gradient.h"
#include "builder/functions.h"
#include "models/loss_scaler.h"
#include "models/micro_batches.h"
#include "models/model.h"

namespace lowtide::models {
namespace {

/// "gpt-b4"; "gpt-b4-m2-bf16" for two micro-batches, and another precision than f32.
std::string graph_name(const Model& model, const ModelOptions& complete, const Precision& precision,
                       std::int64_t micro_batches = 1) {
  check(precision);
  std::string name = fmt::format("{}-b{}", model.name, complete.batch);
  if (micro_batches > 1) name += fmt::format("-m{}", micro_batches);
  if (precision.compute == DType::f32) return name;
  return fmt::format("{}-{}", name, precision_name(precision.compute));
}

/// "-gradients-bf16-state-bf16"; nothing for a type that is f32.
std::string stored_types(const Precision& precision) {
  std::string name;
  const auto add = [&](std::string_view what, DType dtype) {
    if (dtype != DType::f32) name += fmt::format("-{}-{}", what, lowtide::name(dtype));
  };
  add("gradients", precision.gradient_type);
  add("state", precision.state_type);
  return name;
}

/// A model and its loss, before anything is derived from them.
ModelParts built(Builder& builder, const Model& model, const ModelOptions& complete,
                 const Precision& precision) {
  const Builder::Autocast autocast(builder, precision.compute);
  const ModelParts parts = model.build(builder, complete);
  builder.set_name(parts.output, "logits");
  return parts;
}

void mark_loss(Builder& builder, Value loss) {
  builder.set_name(loss, "loss");
  builder.set_role(loss, Role::loss);
}

/// The part of the whole batch's mean that a micro-batch has.
Value share_of_loss(Value loss, std::int64_t micro_batches) {
  return micro_batches == 1 ? loss : loss / static_cast<double>(micro_batches);
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
                     const OptimizerOptions& optimizer, const Precision& precision,
                     std::int64_t micro_batches) {
  ModelOptions complete = with_defaults(model, options);
  check_micro_batches(micro_batches, complete.batch);
  Builder builder(graph_name(model, complete, precision, micro_batches) + stored_types(precision));
  complete.batch /= micro_batches;
  const ModelParts parts = [&] {
    const Builder::MicroBatches first(builder, micro_batches);
    return built(builder, model, complete, precision);
  }();
  LossAndAdjoints all{share_of_loss(parts.loss, micro_batches), {}};
  builder.set_phase(Phase::backward);
  const std::vector<Value> parameters = builder.parameters();
  std::optional<LossScaler> scaler;
  if (precision.compute == DType::f16) scaler.emplace(builder, precision.loss_scale);
  std::vector<Value> seeds;
  if (scaler) seeds.push_back(scaler->seed());
  all.adjoints = autodiff::gradient(std::span(&all.loss, 1), parameters, seeds);
  for (Value& adjoint : all.adjoints) adjoint = to(adjoint, precision.gradient_type);
  all = accumulated(parts, std::move(all), micro_batches);
  mark_loss(builder, all.loss);
  std::vector<Value> gradients;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Value adjoint = scaler ? scaler->unscaled(all.adjoints[i]) : all.adjoints[i];
    gradients.push_back(own_gradient(builder, parameters[i], adjoint));
  }
  const Value found_inf = scaler ? scaler->found_inf() : Value();
  append_optimizer(builder, parameters, gradients, optimizer, precision.state_type, found_inf);
  if (scaler) scaler->append_update(found_inf);
  return builder.build({all.loss});
}

Graph inference_graph(const Model& model, const ModelOptions& options, const Precision& precision) {
  ModelOptions complete = with_defaults(model, options);
  if (options.dropout < 0 && complete.dropout > 0) complete.dropout = 0;
  Builder builder(fmt::format("{}-forward", graph_name(model, complete, precision)));
  const ModelParts parts = built(builder, model, complete, precision);
  mark_loss(builder, parts.loss);
  return builder.build({parts.loss, parts.output});
}

}  // namespace lowtide::models
