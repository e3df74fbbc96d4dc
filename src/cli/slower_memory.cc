#include "cli/slower_memory.h"

#include <fmt/format.h>

#include <string_view>

#include "base/budget.h"
#include "base/error.h"

namespace lowtide::cli {
namespace {

constexpr std::string_view kPerSecond = "/s";

/// "1.6GB/s", in bytes per second.
double parse_bandwidth(std::string_view text) {
  if (text.ends_with(kPerSecond)) {
    try {
      const std::string_view amount = text.substr(0, text.size() - kPerSecond.size());
      return static_cast<double>(parse_amount(amount, "--bandwidth"));
    } catch (const InputError&) {  // its message is about budgets
    }
  }
  throw InputError(fmt::format(
      "--bandwidth must be such as 20GB/s, or 2GB/s,1.6GB/s for out and in, not \"{}\".", text));
}

double units_per_second(const Graph& graph) {
  if (graph.cost_unit() == "us") return 1e6;
  if (graph.cost_unit() == "ns") return 1e9;
  throw InputError(fmt::format(
      "the costs of graph \"{}\" are in \"{}\" and no times, so the time of copies cannot be "
      "compared with them; profile it, or plan without --bandwidth.",
      graph.name(), graph.cost_unit()));
}

}  // namespace

void add_slower_options(CLI::App& app, SlowerArguments& arguments) {
  const char* group = "Slower memory";
  app.add_option("--bandwidth", arguments.bandwidth,
                 "Values may move to slower memory, so fast: 20GB/s, or 2GB/s,1.6GB/s for out and "
                 "in; of strategies, search then only reruns, offload only moves, capuchin, "
                 "poet and save-on-cpu are the methods of others [none]")
      ->type_name("SPEED")
      ->group(group);
  app.add_option("--latency", arguments.latency, "Of each copy, in microseconds [0]")
      ->check(in_range(0, kLargest))
      ->type_name("US")
      ->group(group);
  app.add_option("--slower-budget", arguments.budget, "Bytes of slower memory at most [no limit]")
      ->type_name("BYTES")
      ->group(group);
}

std::optional<offload::Slower> slower_from(const SlowerArguments& arguments, const Graph& graph) {
  if (arguments.bandwidth.empty()) {
    if (arguments.latency > 0) throw InputError("--latency needs --bandwidth SPEED.");
    if (!arguments.budget.empty()) throw InputError("--slower-budget needs --bandwidth SPEED.");
    return std::nullopt;
  }
  const std::string& text = arguments.bandwidth;
  const std::size_t comma = text.find(',');
  const double out = parse_bandwidth(std::string_view(text).substr(0, comma));
  const double in =
      comma == std::string::npos ? out : parse_bandwidth(std::string_view(text).substr(comma + 1));
  const double second = units_per_second(graph);
  const double latency = arguments.latency * 1e-6 * second;
  offload::Slower slower{.lanes = {{latency, second / out}, {latency, second / in}},
                         .residents = true};
  if (!arguments.budget.empty()) slower.bytes = parse_amount(arguments.budget, "--slower-budget");
  return slower;
}

}  // namespace lowtide::cli
