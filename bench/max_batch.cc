// The largest batch within 16 GB and the time of one more forward pass, for Checkmate's networks by
// its own accounting (data/README.md), next to what no plan can exceed. Prints a table. --help
// lists the options.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "bench_main.h"
#include "graph/io.h"
#include "largest/largest_size.h"
#include "strategy/strategy.h"

namespace lowtide::bench {
namespace {

/// A network of Checkmate's table of batches, and the batch of its graph.
struct Network {
  std::string name;
  std::int64_t batch;
};
const std::vector<Network> kNetworks{{"unet", 32},   {"fcn-8-vgg", 32}, {"segnet", 32},
                                     {"vgg19", 256}, {"resnet50", 256}, {"mobilenet", 512}};

struct Arguments {
  std::vector<std::string> networks;
  std::string extra = "forward";
  double seconds = 600;
  double budget = 16e9;
};

void define(CLI::App& app, Arguments& arguments) {
  app.add_option("--networks", arguments.networks, "Some of the six [all]")->delimiter(',');
  app.add_option("--extra-time", arguments.extra, "30%, forward or any [forward]");
  app.add_option("--seconds", arguments.seconds, "Time limit of each network [600]");
  app.add_option("--budget", arguments.budget, "Bytes [16e9]");
}

/// The graph for another batch: values and costs grow with it, residents do not.
Graph with_batch(const Graph& graph, std::int64_t from, std::int64_t batch) {
  GraphData data = graph.data();
  for (Tensor& tensor : data.tensors) {
    if (tensor.kind == Kind::value) tensor.bytes = tensor.bytes * batch / from;
  }
  for (Op& op : data.ops) op.cost *= static_cast<double>(batch) / static_cast<double>(from);
  return Graph(std::move(data));
}

void run_network(const Network& network, const Arguments& arguments) {
  const Graph graph = read_graph(std::filesystem::path(LOWTIDE_SOURCE_DIR) / "data/graphs" /
                                 fmt::format("checkmate-{}.json", network.name));
  largest::UnmeasuredSteps steps(
      [&](std::int64_t batch) { return with_batch(graph, network.batch, batch); });
  const largest::Question question{.sizes = {},
                                   .what = "batch",
                                   .budget_bytes = static_cast<Bytes>(arguments.budget),
                                   .extra = largest::parse_extra_time(arguments.extra),
                                   .strategy = &strategy::default_strategy(),
                                   .strategy_options = {},
                                   .seconds = arguments.seconds,
                                   .listener = [](const std::string& m) {
                                     if (m.starts_with("note: ")) fmt::print(stderr, "{}\n", m);
                                   }};
  const Control clock;
  const largest::Largest found = largest::largest_size(question, steps);
  const largest::Trial& first = found.trials.front();
  const std::int64_t possible =
      first.evidence == largest::Evidence::bound ? first.size - 1 : found.size;
  fmt::print("| {} | {} | {} | {:.1f} | {} | {:.0f} |\n", network.name, found.size, possible,
             100 * found.planned.overhead(),
             found.too_large ? fmt::format("{}: {}", *found.too_large, found.why_too_large) : "-",
             clock.elapsed_seconds());
  std::fflush(stdout);
}

void run(const Arguments& arguments) {
  fmt::print("{:.3g} bytes, extra time {}, {} s for each network\n\n", arguments.budget,
             arguments.extra, arguments.seconds);
  fmt::print("| network | found | possible | overhead % | too large | s |\n"
             "| --- | ---: | ---: | ---: | --- | ---: |\n");
  for (const Network& network : kNetworks) {
    const auto& chosen = arguments.networks;
    if (chosen.empty() || std::ranges::count(chosen, network.name) > 0) {
      run_network(network, arguments);
    }
  }
}

}  // namespace
}  // namespace lowtide::bench

int main(int argc, char** argv) {
  return bench_main(argc, argv, "max_batch", "The largest batches of Checkmate's networks",
                    lowtide::bench::define, lowtide::bench::run);
}
