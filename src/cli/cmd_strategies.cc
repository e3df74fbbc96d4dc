#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/output.h"
#include "strategy/strategy.h"

namespace lowtide::cli {
namespace {

nlohmann::json to_json(const strategy::Strategy& strategy) {
  nlohmann::json options = nlohmann::json::array();
  for (const strategy::StrategyOption& o : strategy.options) {
    options.push_back({{"name", o.name},
                       {"help", o.help},
                       {"default", o.default_value},
                       {"low", o.low},
                       {"high", o.high}});
  }
  return {{"name", strategy.name},
          {"summary", strategy.summary},
          {"guarantee", strategy.guarantee},
          {"paper", strategy.paper},
          {"options", options},
          {"default", &strategy == &strategy::default_strategy()}};
}

std::string described(const strategy::Strategy& strategy) {
  const bool is_default = &strategy == &strategy::default_strategy();
  std::string text =
      fmt::format("{}{}\n  {}\n  guarantee: {}\n", strategy.name, is_default ? " (default)" : "",
                  strategy.summary, strategy.guarantee);
  if (!strategy.paper.empty()) text += fmt::format("  paper: {}\n", strategy.paper);
  for (const strategy::StrategyOption& o : strategy.options) {
    text +=
        fmt::format("  -O {}={}   {} ({} to {})\n", o.name, o.default_value, o.help, o.low, o.high);
  }
  return text + "\n";
}

int list_strategies(bool json) {
  nlohmann::json all = nlohmann::json::array();
  std::string text;
  for (const strategy::Strategy& strategy : strategy::strategies()) {
    all.push_back(to_json(strategy));
    text += described(strategy);
  }
  if (json) {
    print_json({{"strategies", all}});
  } else {
    print(text);
  }
  return kSuccess;
}

}  // namespace

Action define_strategies(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  add_json_flag(app, *json);
  add_help(
      app,
      "A strategy decides which ops run again. Choose one with --strategy, its options with -O.",
      "  lowtide strategies\n  lowtide plan g.json --budget 60% --strategy segments -O "
      "segments=8\n");
  return [json] { return list_strategies(*json); };
}

}  // namespace lowtide::cli
