#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/output.h"
#include "strategy/strategy.h"

namespace lowtide::cli {
namespace {

nlohmann::json strategy_json(const strategy::Strategy& strategy) {
  nlohmann::json options = nlohmann::json::array();
  for (const strategy::StrategyOption& o : strategy.options) {
    options.push_back({{"name", o.name},
                       {"kind", strategy::name(o.kind)},
                       {"help", o.help},
                       {"unit", o.unit},
                       {"default", strategy::format_value(o, o.default_value)},
                       {"allowed", strategy::allowed_values(o)}});
  }
  return {{"name", strategy.name},
          {"summary", strategy.summary},
          {"guarantee", strategy.guarantee},
          {"paper", strategy.paper},
          {"options", options},
          {"default", &strategy == &strategy::default_strategy()}};
}

std::string strategy_text(const strategy::Strategy& strategy) {
  const bool is_default = &strategy == &strategy::default_strategy();
  std::string text =
      fmt::format("{}{}\n  {}\n  guarantee: {}\n", strategy.name, is_default ? " (default)" : "",
                  strategy.summary, strategy.guarantee);
  if (!strategy.paper.empty()) text += fmt::format("  paper: {}\n", strategy.paper);
  for (const strategy::StrategyOption& o : strategy.options) {
    const std::string unit = o.unit.empty() ? "" : fmt::format(" {}", o.unit);
    text +=
        fmt::format("  -O {}={}{}   {} ({})\n", o.name, strategy::format_value(o, o.default_value),
                    unit, o.help, strategy::allowed_values(o));
  }
  return text + "\n";
}

int list_strategies(bool json) {
  nlohmann::json all = nlohmann::json::array();
  std::string text;
  for (const strategy::Strategy& strategy : strategy::strategies()) {
    all.push_back(strategy_json(strategy));
    text += strategy_text(strategy);
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
