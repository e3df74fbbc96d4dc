#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/output.h"
#include "models/model.h"
#include "report/table.h"

namespace lowtide::cli {
namespace {

const char* name(models::Task task) {
  switch (task) {
    case models::Task::images: return "images";
    case models::Task::tokens: return "tokens";
    case models::Task::segmentation: break;
  }
  return "segmentation";
}

nlohmann::ordered_json defaults_of(const models::Model& model) {
  nlohmann::ordered_json defaults = nlohmann::ordered_json::object();
  for (const models::SizeOption& size : models::size_options()) {
    const std::int64_t value = model.defaults.*size.field;
    if (value > 0) defaults[std::string(size.name)] = value;
  }
  if (model.defaults.dropout >= 0) defaults["dropout"] = model.defaults.dropout;
  return defaults;
}

std::string listed(const nlohmann::ordered_json& defaults) {
  std::string text;
  for (const auto& [key, value] : defaults.items()) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", key, value.dump());
  }
  return text;
}

int list_models(bool json) {
  nlohmann::json all = nlohmann::json::array();
  report::Table table({"model", "learns", "what", "options and their defaults"},
                      report::Table::Align::left);
  for (const models::Model& model : models::models()) {
    const auto defaults = defaults_of(model);
    table.add(
        {std::string(model.name), name(model.task), std::string(model.summary), listed(defaults)});
    all.push_back({{"name", model.name},
                   {"summary", model.summary},
                   {"paper", model.paper},
                   {"task", name(model.task)},
                   {"defaults", defaults}});
  }
  if (json) {
    print_json({{"models", all}});
  } else {
    print(table.text(output_columns()));
  }
  return kSuccess;
}

}  // namespace

Action define_models(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  add_json_flag(app, *json);
  add_help(app, "Each option of a model is an option of `lowtide train` and `lowtide graph`.",
           "  lowtide models\n  lowtide train --model gpt --layers 6 --width 256 --text FILE\n");
  return [json] { return list_models(*json); };
}

}  // namespace lowtide::cli
