#include "strategy/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "base/nearest.h"

namespace lowtide::strategy {
namespace {

std::optional<double> parse_number(std::string_view text) {
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_number = error == std::errc() && stop == text.data() + text.size();
  return is_number ? std::optional(value) : std::nullopt;
}

/// Choices may be given by position too.
std::optional<double> number_of(const StrategyOption& option, std::string_view word) {
  if (option.kind == OptionKind::on_off && word == "true") return 1;
  if (option.kind == OptionKind::on_off && word == "false") return 0;
  const auto found = std::ranges::find(option.choices, word);
  if (found == option.choices.end()) return parse_number(word);
  return static_cast<double>(found - option.choices.begin());
}

bool is_allowed(const StrategyOption& option, double value) {
  const bool is_in_range = option.low <= value && value <= option.high;
  return is_in_range && (option.kind == OptionKind::number || value == std::floor(value));
}

std::string_view number_kind(const StrategyOption& option) {
  if (option.kind == OptionKind::integer) return "a whole number from ";
  return option.kind == OptionKind::number ? "a number from " : "";
}

std::string suggestion(const StrategyOption& option, const OptionValue& given) {
  if (option.kind != OptionKind::choice || given.word() == nullptr) return "";
  return did_you_mean(*given.word(), {option.choices.begin(), option.choices.end()});
}

}  // namespace

std::string_view name(OptionKind kind) {
  switch (kind) {
    case OptionKind::integer: return "integer";
    case OptionKind::number: return "number";
    case OptionKind::choice: return "choice";
    case OptionKind::on_off: return "switch";
  }
  return "number";
}

StrategyOption integer_option(std::string_view name, std::string_view help, double default_value,
                              OptionRange range, std::string_view unit) {
  return {name, help, OptionKind::integer, default_value, range.low, range.high, unit};
}

StrategyOption number_option(std::string_view name, std::string_view help, double default_value,
                             OptionRange range, std::string_view unit) {
  return {name, help, OptionKind::number, default_value, range.low, range.high, unit};
}

StrategyOption choice_option(std::string_view name, std::string_view help,
                             std::vector<std::string_view> choices) {
  const auto last = static_cast<double>(choices.size() - 1);
  return {name, help, OptionKind::choice, 0, 0, last, {}, std::move(choices)};
}

StrategyOption on_off_option(std::string_view name, std::string_view help, bool default_value) {
  return {name, help, OptionKind::on_off, default_value ? 1.0 : 0.0, 0, 1, {}, {"off", "on"}};
}

StrategyOption seed_option() {
  return integer_option("seed", "starts the random numbers", 1, {0, 1e9});
}

double option_number(const StrategyOption& option, const OptionValue& given,
                     std::string_view strategy) {
  const std::optional<double> value =
      given.word() ? number_of(option, *given.word()) : *given.number();
  if (value && is_allowed(option, *value)) return *value;
  const std::string text = given.word() ? *given.word() : fmt::format("{}", *given.number());
  throw InputError(fmt::format("the option \"{}\" of {} must be {}{}, not {}.{}", option.name,
                               strategy, number_kind(option), allowed_values(option), text,
                               suggestion(option, given)));
}

bool is_off(const StrategyOptions& options, std::string_view name) {
  const auto found = options.find(name);
  return found != options.end() && found->second == 0;
}

std::string format_value(const StrategyOption& option, double value) {
  if (option.choices.empty()) return fmt::format("{}", value);
  return std::string(option.choices[static_cast<std::size_t>(value)]);
}

std::string allowed_values(const StrategyOption& option) {
  if (option.kind == OptionKind::on_off) return "on or off";
  if (option.choices.empty()) return fmt::format("{} to {}", option.low, option.high);
  const auto last = option.choices.end() - 1;
  return fmt::format("{} or {}", fmt::join(option.choices.begin(), last, ", "), *last);
}

}  // namespace lowtide::strategy
