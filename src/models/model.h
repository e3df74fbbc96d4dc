#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "builder/builder.h"
#include "models/precision.h"

namespace lowtide::models {

/// Sizes of a model; 0 means the model's own default.
struct ModelOptions {
  std::int64_t batch = 0;
  std::int64_t image = 0;  ///< height and width of square images
  std::int64_t classes = 0;
  std::int64_t layers = 0;  ///< transformer blocks, LSTM steps' cells, MLP layers
  std::int64_t width = 0;
  std::int64_t heads = 0;
  std::int64_t sequence = 0;  ///< tokens or time steps
  std::int64_t vocabulary = 0;
  double dropout = -1;  ///< negative: the model's own default
};

/// A size field of ModelOptions and its name for users.
struct SizeOption {
  std::string_view name;  ///< "batch"
  std::int64_t ModelOptions::* field;
  std::string_view help;
};
/// All size options; a model reads the options for which it has a default.
std::span<const SizeOption> size_options();

enum class Task { images, tokens, segmentation };

/// The ends of a built model.
struct ModelParts {
  Value input;
  Value target;
  Value output;  ///< logits
  Value loss;    ///< scalar
};

/// One model family member of the zoo.
struct Model {
  std::string_view name;     ///< "resnet50"
  std::string_view summary;  ///< one line
  std::string_view paper;
  Task task;
  ModelOptions defaults;  ///< every field that the model reads is set; others are 0
  ModelParts (*build)(Builder& builder, const ModelOptions& options);
};

std::span<const Model> models();
/// Throws InputError with the nearest names.
const Model& find_model(std::string_view name);
/// The model's defaults, overridden by the options set in `given`. Throws InputError for an option
/// that the model does not read or that is out of range.
ModelOptions with_defaults(const Model& model, const ModelOptions& given);

struct OptimizerOptions {
  std::string name = "sgd";  ///< sgd, adam, adamw
  double learning_rate = 0;  ///< 0: 0.1 for sgd, 0.001 for the others
  double momentum = 0.9;     ///< sgd
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double weight_decay = 0;
};

/// A number of OptimizerOptions and its name for users.
struct RateOption {
  std::string_view name;  ///< "weight-decay"
  double OptimizerOptions::* field;
  std::string_view help;
  bool is_of_sgd, is_of_adam;  ///< whether sgd reads it; whether adam and adamw do
};
std::span<const RateOption> rate_options();
std::vector<std::string> optimizer_names();
/// Throws InputError for an unknown optimizer.
bool reads(std::string_view optimizer, const RateOption& rate);
/// With the learning rate that the optimizer takes where none is given. Throws InputError for an
/// unknown optimizer.
OptimizerOptions with_defaults(const OptimizerOptions& given);
/// Numbers that the optimizer keeps for each parameter. Throws InputError for an unknown optimizer.
std::int64_t optimizer_states(const OptimizerOptions& options);

/// The whole training step of a model: forward, loss, gradients of every parameter, update.
/// The graph's outputs are the loss. The forward pass computes as under torch.autocast of the
/// precision, and f16 with a scaled loss (models/loss_scaler.h). The batch goes through in so many
/// micro-batches of one size, one after another, with gradients that are those of the mean over the
/// whole batch (models/micro_batches.h). Normalizations take the statistics of a micro-batch, and
/// running ones take a step for each. Throws InputError for options that do not fit.
Graph training_graph(const Model& model, const ModelOptions& options,
                     const OptimizerOptions& optimizer, const Precision& precision = {},
                     std::int64_t micro_batches = 1);

/// The forward pass of a model, without dropout unless `options` asks for it. Its outputs are the
/// loss and then the model's own output. Normalizations take the statistics of the batch, as in
/// training.
Graph inference_graph(const Model& model, const ModelOptions& options,
                      const Precision& precision = {});

/// Appends the update of each parameter by its gradient, phase optimizer. Gradients of a lower type
/// are widened to f32 first. Momentum and moments are stored in `state_type`, f32 or bf16, and
/// widened for the update; stored are the nearest numbers. Where `found_inf` is given and 1, the
/// step changes neither parameters nor state.
void append_optimizer(Builder& builder, std::span<const Value> parameters,
                      std::span<const Value> gradients, const OptimizerOptions& options,
                      DType state_type = DType::f32, Value found_inf = {});

}  // namespace lowtide::models
