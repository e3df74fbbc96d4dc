#include "train/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/budget.h"
#include "base/error.h"
#include "base/nearest.h"

// Found where the types are.
namespace lowtide::models {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(ModelOptions, batch, image, classes, layers, width,
                                                heads, sequence, vocabulary, dropout)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(OptimizerOptions, name, learning_rate, momentum,
                                                beta1, beta2, epsilon, weight_decay)
}  // namespace lowtide::models

namespace lowtide::train {
using nlohmann::json;

namespace {

using Data = DataSource::Kind;
constexpr std::array kKinds = {std::pair{Data::synthetic, "synthetic"},
                               std::pair{Data::text, "text"}, std::pair{Data::mnist, "mnist"},
                               std::pair{Data::cifar10, "cifar10"}};

std::vector<std::string> kind_names() {
  std::vector<std::string> names;
  for (const auto& [kind, text] : kKinds) names.emplace_back(text);
  return names;
}

Data parse_kind(std::string_view text) {
  for (const auto& [kind, known] : kKinds) {
    if (text == known) return kind;
  }
  throw InputError(
      fmt::format("unknown data \"{}\".{} Data is synthetic, text:FILE, mnist:FOLDER or "
                  "cifar10:FOLDER.",
                  text, did_you_mean(text, kind_names())));
}

/// JSON is UTF-8, and a path is any bytes: a path that is not UTF-8 becomes a list of bytes.
json path_to_json(const std::filesystem::path& path) {
  std::string bytes = path.string();
  try {
    static_cast<void>(json(bytes).dump());
    return bytes;
  } catch (const json::type_error&) {
    return std::vector<std::uint8_t>(bytes.begin(), bytes.end());
  }
}

json to_json(const Recipe& recipe) {
  return {{"model", recipe.model},
          {"sizes", recipe.sizes},
          {"optimizer", recipe.optimizer},
          {"precision", models::precision_name(recipe.precision.compute)},
          {"loss_scale", recipe.precision.loss_scale},
          {"gradient_type", name(recipe.precision.gradient_type)},
          {"state_type", name(recipe.precision.state_type)},
          {"micro_batches", recipe.micro_batches},
          {"slices", recipe.slices},
          {"data", name(recipe.data.kind)},
          {"data_path", path_to_json(recipe.data.path)},
          {"seed", recipe.seed},
          {"threads", recipe.threads}};
}

std::filesystem::path path_from(const json& j) {
  if (j.is_string()) return j.get<std::string>();
  const auto bytes = j.get<std::vector<std::uint8_t>>();
  return std::string(bytes.begin(), bytes.end());
}

/// Checkpoints from before there was a choice have none.
models::Precision precision_from(const json& j) {
  models::Precision precision;
  if (!j.contains("precision")) return precision;
  precision.compute = models::parse_precision(j.at("precision").get<std::string>());
  j.at("loss_scale").get_to(precision.loss_scale);
  const auto stored = [&j](std::string_view what, std::string_view key, DType otherwise) {
    return j.contains(key) ? models::parse_stored_type(what, j.at(key).get<std::string>())
                           : otherwise;
  };
  precision.gradient_type = stored(models::kGradientType, "gradient_type", precision.gradient_type);
  precision.state_type = stored(models::kStateType, "state_type", precision.state_type);
  return precision;
}

Recipe recipe_from(const json& j) {
  Recipe recipe;
  j.at("model").get_to(recipe.model);
  j.at("sizes").get_to(recipe.sizes);
  j.at("optimizer").get_to(recipe.optimizer);
  recipe.precision = precision_from(j);
  recipe.micro_batches = j.value("micro_batches", recipe.micro_batches);
  recipe.slices = j.value("slices", recipe.slices);
  recipe.data = {parse_kind(j.at("data").get<std::string>()), path_from(j.at("data_path"))};
  j.at("seed").get_to(recipe.seed);
  j.at("threads").get_to(recipe.threads);
  return recipe;
}

json to_json(const strategy::GivenOptions& options) {
  json result = json::object();
  for (const auto& [name, value] : options) {
    result[name] = value.word() ? json(*value.word()) : json(*value.number());
  }
  return result;
}

strategy::GivenOptions given_options_from(const json& j) {
  strategy::GivenOptions options;
  for (const auto& [name, value] : j.items()) {
    if (value.is_string()) {
      options.emplace(name, value.get<std::string>());
    } else {
      options.emplace(name, value.get<double>());
    }
  }
  return options;
}

/// Of both directions: latency and bandwidth.
json to_json(const slower::LaneSpeed& speed) {
  const auto pair = [](const slower::Speed& s) {
    return json::array({s.latency_seconds, s.bytes_per_second});
  };
  return json::array({pair(speed.out), pair(speed.in)});
}

slower::LaneSpeed host_speed_from(const json& j) {
  const auto speed = [](const json& pair) {
    return slower::Speed{pair.at(0).get<double>(), pair.at(1).get<double>()};
  };
  return {speed(j.at(0)), speed(j.at(1))};
}

json to_json(const MemoryOptions& options) {
  const planner::PlanningOptions& planning = options.planning;
  json j = {{"budget", format_budget(planning.budget)},
            {"strategy", planning.strategy},
            {"strategy_options", to_json(planning.strategy_options)},
            {"planning_seconds", planning.seconds},
            {"pool", options.memory == runtime::ExecutorOptions::Memory::pool},
            {"reserve", options.overrun == runtime::ExecutorOptions::Overrun::reserve},
            {"reserve_bytes", options.reserve_bytes}};
  if (!options.disk.empty()) j["disk"] = path_to_json(options.disk);
  if (options.disk_bytes) j["disk_bytes"] = *options.disk_bytes;
  if (options.host_bytes) j["host_bytes"] = *options.host_bytes;
  if (options.host_speed) j["host_speed"] = to_json(*options.host_speed);
  return j;
}

Budget budget_from(const json& j) {
  const auto text = j.get<std::string>();
  return text.empty() ? Budget() : parse_budget(text);
}

MemoryOptions memory_from(const json& j) {
  using Memory = runtime::ExecutorOptions::Memory;
  using Overrun = runtime::ExecutorOptions::Overrun;
  MemoryOptions options;
  options.planning.budget = budget_from(j.at("budget"));
  j.at("strategy").get_to(options.planning.strategy);
  options.planning.strategy_options = given_options_from(j.at("strategy_options"));
  j.at("planning_seconds").get_to(options.planning.seconds);
  options.memory = j.at("pool").get<bool>() ? Memory::pool : Memory::arena;
  options.overrun = j.at("reserve").get<bool>() ? Overrun::reserve : Overrun::stop;
  j.at("reserve_bytes").get_to(options.reserve_bytes);
  if (j.contains("disk")) options.disk = path_from(j.at("disk"));
  if (j.contains("disk_bytes")) options.disk_bytes = j.at("disk_bytes").get<Bytes>();
  if (j.contains("host_bytes")) options.host_bytes = j.at("host_bytes").get<Bytes>();
  if (j.contains("host_speed")) options.host_speed = host_speed_from(j.at("host_speed"));
  return options;
}

/// Options with their values, as on the command line.
using Typed = std::vector<std::pair<std::string, std::string>>;

/// What determines the numbers of a run, apart from where its data lies.
Typed typed(const Recipe& recipe) {
  Typed options = {{"--model", recipe.model}};
  const auto add = [&options](std::string_view name, const auto& value) {
    options.emplace_back(fmt::format("--{}", name), fmt::format("{}", value));
  };
  for (const models::SizeOption& size : models::size_options()) {
    add(size.name, recipe.sizes.*size.field);
  }
  add("dropout", recipe.sizes.dropout);
  add("optimizer", recipe.optimizer.name);
  for (const models::RateOption& rate : models::rate_options()) {
    add(rate.name, recipe.optimizer.*rate.field);
  }
  add("precision", models::precision_name(recipe.precision.compute));
  add("loss-scale", recipe.precision.loss_scale);
  add("gradient-type", name(recipe.precision.gradient_type));
  add("state-type", name(recipe.precision.state_type));
  add("micro-batches", recipe.micro_batches);
  add("slices", recipe.slices);
  add("data", name(recipe.data.kind));
  add("seed", recipe.seed);
  add("threads", recipe.threads);
  return options;
}

std::string change(std::string_view option, std::string_view then, std::string_view now) {
  return fmt::format("{} {}, now {}", option, then, now);
}

}  // namespace

MemoryOptions without_moves(MemoryOptions options) {
  options.disk.clear();
  options.disk_bytes.reset();
  options.host_bytes.reset();
  options.host_speed.reset();
  return options;
}

std::string_view name(DataSource::Kind kind) {
  return kKinds[static_cast<std::size_t>(kind)].second;
}

DataSource parse_data_source(std::string_view text) {
  const std::size_t colon = text.find(':');
  const Data kind = parse_kind(text.substr(0, colon));
  const bool has_path = colon != std::string_view::npos && colon + 1 < text.size();
  if (has_path == (kind == Data::synthetic)) {
    throw InputError(
        kind == Data::synthetic
            ? "synthetic data takes no path: write --data synthetic."
            : fmt::format("data {0} needs a path: write --data {0}:PATH.", name(kind)));
  }
  if (!has_path) return {kind, {}};
  return {kind, std::filesystem::absolute(text.substr(colon + 1))};
}

std::string format_options(const TrainOptions& options) {
  return json{{"recipe", to_json(options.recipe)},
              {"fitting", to_json(options.memory)},
              {"steps", options.steps},
              {"save_every", options.save_every}}
      .dump();
}

TrainOptions parse_options(std::string_view text) {
  try {
    const json j = json::parse(text);
    TrainOptions options;
    options.recipe = recipe_from(j.at("recipe"));
    options.memory = memory_from(j.at("fitting"));
    j.at("steps").get_to(options.steps);
    j.at("save_every").get_to(options.save_every);
    return options;
  } catch (const json::exception&) {
    throw InputError("the options recorded in it cannot be read.");
  }
}

Recipe with_defaults(const Recipe& given) {
  Recipe complete = given;
  complete.sizes = models::with_defaults(models::find_model(given.model), given.sizes);
  complete.optimizer = models::with_defaults(given.optimizer);
  return complete;
}

std::optional<std::string> first_difference(const Recipe& then, const Recipe& now) {
  // The sizes of one model may be none of another.
  if (then.model != now.model) return change("--model", then.model, now.model);
  const Typed a = typed(with_defaults(then)), b = typed(with_defaults(now));
  const auto [in_a, in_b] = std::ranges::mismatch(a, b);
  if (in_a == a.end()) return std::nullopt;
  return change(in_a->first, in_a->second, in_b->second);
}

}  // namespace lowtide::train
