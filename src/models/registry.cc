#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/nearest.h"
#include "models/families.h"

namespace lowtide::models {
namespace {

std::vector<Model> all_models() {
  std::vector<Model> all;
  for (const auto family :
       {mlp_models, vgg_models, resnet_models, mobilenet_models, densenet_models, inception_models,
        unet_models, fcn_models, segnet_models, lstm_models, gpt_models, vit_models}) {
    std::ranges::copy(family(), std::back_inserter(all));
  }
  return all;
}

constexpr SizeOption kSizes[] = {
    {"batch", &ModelOptions::batch, "Images or sequences in a batch"},
    {"image", &ModelOptions::image, "Height and width of the images"},
    {"classes", &ModelOptions::classes, "Classes to tell apart"},
    {"layers", &ModelOptions::layers, "Layers or blocks"},
    {"width", &ModelOptions::width, "Width of the hidden layers"},
    {"heads", &ModelOptions::heads, "Attention heads"},
    {"sequence", &ModelOptions::sequence, "Tokens or time steps of a sequence"},
    {"vocabulary", &ModelOptions::vocabulary, "Distinct tokens"}};
constexpr std::int64_t kLargestSize = std::int64_t{1} << 31;

std::string options_read(const Model& model) {
  std::string list;
  const auto add = [&list](std::string_view name) {
    list += fmt::format("{}{}", list.empty() ? "" : ", ", name);
  };
  for (const auto& [name, field, help] : kSizes) {
    if (model.defaults.*field > 0) add(name);
  }
  if (model.defaults.dropout >= 0) add("dropout");
  return list;
}

[[noreturn]] void refuse_unread(const Model& model, std::string_view option) {
  throw InputError(fmt::format("model {} has no option \"{}\"; it reads: {}", model.name, option,
                               options_read(model)));
}

}  // namespace

std::span<const SizeOption> size_options() { return kSizes; }

std::span<const Model> models() {
  static const std::vector<Model> all = all_models();
  return all;
}

const Model& find_model(std::string_view name) {
  const auto all = models();
  const auto found = std::ranges::find(all, name, &Model::name);
  if (found != all.end()) return *found;
  std::vector<std::string> names;
  for (const Model& model : all) names.emplace_back(model.name);
  throw InputError(fmt::format("unknown model \"{}\".{} `lowtide models` lists them all", name,
                               did_you_mean(name, names)));
}

ModelOptions with_defaults(const Model& model, const ModelOptions& given) {
  ModelOptions complete = model.defaults;
  for (const auto& [name, field, help] : kSizes) {
    const std::int64_t value = given.*field;
    if (value == 0) continue;
    if (model.defaults.*field == 0) refuse_unread(model, name);
    if (value < 1 || value > kLargestSize) {
      throw InputError(
          fmt::format("{} must be between 1 and {}, not {}", name, kLargestSize, value));
    }
    complete.*field = value;
  }
  if (given.dropout >= 0) {
    if (model.defaults.dropout < 0) refuse_unread(model, "dropout");
    if (given.dropout >= 1) {
      throw InputError(
          fmt::format("dropout must be at least 0 and below 1, not {}", given.dropout));
    }
    complete.dropout = given.dropout;
  }
  return complete;
}

}  // namespace lowtide::models
