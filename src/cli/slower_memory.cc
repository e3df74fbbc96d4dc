#include "cli/slower_memory.h"

#include <fmt/format.h>

#include <optional>
#include <string_view>
#include <utility>

#include "base/budget.h"
#include "base/error.h"

namespace lowtide::cli {
namespace {

constexpr std::string_view kPerSecond = "/s";

/// "1.6GB/s", in bytes per second; nothing for what is none.
std::optional<double> parse_bandwidth(std::string_view text, std::string_view option) {
  if (!text.ends_with(kPerSecond)) return std::nullopt;
  try {
    const std::string_view amount = text.substr(0, text.size() - kPerSecond.size());
    return static_cast<double>(parse_amount(amount, option));
  } catch (const InputError&) {  // its message is about budgets
    return std::nullopt;
  }
}

double units_per_second(const Graph& graph, const std::string& option) {
  if (graph.cost_unit() == "us") return 1e6;
  if (graph.cost_unit() == "ns") return 1e9;
  throw InputError(fmt::format(
      "the costs of graph \"{}\" are in \"{}\" and no times, so the time of copies cannot be "
      "compared with them; profile it, or plan without {}.",
      graph.name(), graph.cost_unit(), option));
}

/// The options of a place.
struct PlaceNames {
  std::string bandwidth, latency, budget;
};
const PlaceNames kOnly{"--bandwidth", "--latency", "--slower-budget"};
const PlaceNames kHost{"--host-bandwidth", "--host-latency", "--host-budget"};
const PlaceNames kDisk{"--disk-bandwidth", "--disk-latency", "--disk-budget"};

void add_place(CLI::App& app, PlaceArguments& place, const PlaceNames& names,
               const std::string& help) {
  const char* group = "Slower memory";
  app.add_option(names.bandwidth, place.bandwidth, help)->type_name("SPEED")->group(group);
  app.add_option(names.latency, place.latency, "Of each copy, in microseconds [0]")
      ->check(in_range(0, kLargest))
      ->type_name("US")
      ->group(group);
  app.add_option(names.budget, place.budget, "Bytes that may lie there at most [no limit]")
      ->type_name("BYTES")
      ->group(group);
}

struct PlacePlanned {
  Lanes lanes;
  std::optional<Bytes> bytes;
};

/// Nothing where no bandwidth is given.
std::optional<PlacePlanned> place_from(const PlaceArguments& place, const PlaceNames& names,
                                       const Graph& graph) {
  if (place.bandwidth.empty()) {
    for (const auto& [is_given, name] : {std::pair(place.latency > 0, names.latency),
                                         std::pair(!place.budget.empty(), names.budget)}) {
      if (is_given) throw InputError(fmt::format("{} needs {} SPEED.", name, names.bandwidth));
    }
    return std::nullopt;
  }
  const slower::LaneSpeed speed = parse_speed(place.bandwidth, place.latency, names.bandwidth);
  const double second = units_per_second(graph, names.bandwidth);
  const auto lane = [&](const slower::Speed& one) {
    return Lane{one.latency_seconds * second, second / one.bytes_per_second};
  };
  PlacePlanned planned{.lanes = {lane(speed.out), lane(speed.in)}, .bytes = {}};
  if (!place.budget.empty()) planned.bytes = parse_amount(place.budget, names.budget);
  return planned;
}

}  // namespace

void add_slower_options(CLI::App& app, SlowerArguments& arguments) {
  add_place(app, arguments.only, kOnly,
            "Values may move to slower memory, so fast: 20GB/s, or 2GB/s,1.6GB/s for out and in; "
            "of strategies, search then only reruns, offload only moves, capuchin, poet and "
            "save-on-cpu are the methods of others [none]");
  add_place(app, arguments.host, kHost,
            "The same of the host's memory, with --disk-bandwidth beside a disk [none]");
  add_place(app, arguments.disk, kDisk, "The same of a disk [none]");
}

slower::LaneSpeed parse_speed(std::string_view bandwidth, double latency, std::string_view option) {
  constexpr double kMicrosecond = 1e-6;
  const std::size_t comma = bandwidth.find(',');
  const auto out = parse_bandwidth(bandwidth.substr(0, comma), option);
  const auto in =
      comma == std::string_view::npos ? out : parse_bandwidth(bandwidth.substr(comma + 1), option);
  if (!out || !in) {
    throw InputError(fmt::format("{} must be such as 20GB/s, or 2GB/s,1.6GB/s for out and in, not "
                                 "\"{}\".",
                                 option, bandwidth));
  }
  return {{latency * kMicrosecond, *out}, {latency * kMicrosecond, *in}};
}

std::optional<offload::Slower> slower_from(const SlowerArguments& arguments, const Graph& graph) {
  const auto only = place_from(arguments.only, kOnly, graph);
  const auto host = place_from(arguments.host, kHost, graph);
  const auto disk = place_from(arguments.disk, kDisk, graph);
  if (only && (host || disk)) {
    throw InputError("--bandwidth is for one place: give --host-bandwidth and --disk-bandwidth for "
                     "two.");
  }
  const auto& first = only ? only : (host ? host : disk);
  if (!first) return std::nullopt;
  offload::Slower slower{.lanes = first->lanes, .bytes = first->bytes, .residents = true};
  if (host && disk) slower.second = {.lanes = disk->lanes, .bytes = disk->bytes};
  return slower;
}

}  // namespace lowtide::cli
