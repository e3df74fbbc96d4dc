#include "cli/completions/completions.h"

#include "cost/device_rates.h"
#include "models/model.h"
#include "models/precision.h"
#include "models/step_recipe.h"
#include "strategy/strategy.h"

namespace lowtide::cli {
namespace {

template <typename Named>
std::vector<std::string> names_of(const Named& all) {
  std::vector<std::string> names;
  for (const auto& one : all) names.emplace_back(one.name);
  return names;
}

std::vector<std::string> precision_names() {
  std::vector<std::string> names;
  for (const DType precision : {DType::f32, DType::bf16, DType::f16}) {
    names.emplace_back(models::precision_name(precision));
  }
  return names;
}

/// What stands for a file is FILE or has a suffix, as in "GRAPH.json".
bool is_file(std::string_view type) {
  return type.starts_with("FILE") || type.find('.') != std::string_view::npos;
}

std::vector<std::string> words_of(std::string_view type) {
  if (type == "MODEL") return names_of(models::models());
  if (type == "STRATEGY") return names_of(strategy::strategies());
  if (type == "DEVICE") return names_of(cost::known_devices());
  if (type == "OPTIMIZER") return models::optimizer_names();
  if (type == "PRECISION") return precision_names();
  if (type == "SHELL") return {"bash", "zsh", "fish"};
  return {};
}

Values values_of(std::string_view type) {
  if (type == "FOLDER") return {Values::Kind::folder, {}};
  if (is_file(type)) return {Values::Kind::file, {}};
  std::vector<std::string> words = words_of(type);
  const auto kind = words.empty() ? Values::Kind::unknown : Values::Kind::words;
  return {kind, std::move(words)};
}

std::vector<std::string> names_of_option(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  return names;
}

}  // namespace

std::vector<Completion> completions_of(const CLI::App& command) {
  std::vector<Completion> all;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_group().empty()) continue;  // --help does not list it either
    const bool is_flag = option->get_items_expected_max() == 0;
    const std::string type = is_flag ? "" : option->get_type_name();
    all.push_back(
        {.names = names_of_option(*option),
         .help = option->get_description(),
         .type = type,
         .values = is_flag ? Values{} : values_of(type),
         .is_repeatable = option->get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll});
  }
  return all;
}

}  // namespace lowtide::cli
