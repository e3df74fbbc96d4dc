// How much memory an order of the ops and writes in place save when every op runs once: bytes at
// the peak, and of the arena, of the models of the zoo and of files of graphs. Prints a table.
// --help lists the options.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench_main.h"
#include "graph/io.h"
#include "layout/layout.h"
#include "models/model.h"
#include "ordering/least_peak.h"
#include "ordering/schedule.h"
#include "plan/in_place.h"
#include "plan/lower.h"
#include "plan/verify.h"

namespace lowtide::bench {
namespace {

namespace fs = std::filesystem;

struct Arguments {
  std::vector<std::string> graphs;
  std::vector<std::string> models;
  std::int64_t batch = 0;
  std::string optimizer = "sgd";
  double work = 1;
};

void define(CLI::App& app, Arguments& arguments) {
  app.add_option("--graphs", arguments.graphs, "Files of graphs");
  app.add_option("--models", arguments.models, "Models of the zoo");
  app.add_option("--batch", arguments.batch, "Of the models; 0: their own [0]");
  app.add_option("--optimizer", arguments.optimizer, "Of the models [sgd]");
  app.add_option("--work", arguments.work, "On each order [1]");
}

Graph without_in_place(const Graph& graph) {
  GraphData data = graph.data();
  for (Op& op : data.ops) op.inplace.clear();
  return Graph(std::move(data));
}

Bytes arena_of(const Graph& graph, Plan plan) {
  if (const auto violation = verify(graph, plan)) throw std::logic_error(violation->message);
  const Bytes alignment = graph.executable() ? graph.alignment() : 1;
  return layout::assign_addresses(graph, plan, {.alignment = alignment}).arena_bytes;
}

/// Memory when every op runs once.
struct Memory {
  Bytes peak, arena;
};

Memory memory_of(const Graph& graph, const Plan& plan) {
  return {plan.peak_bytes, arena_of(graph, plan)};
}

struct Ordered {
  Memory memory;
  ordering::LeastPeak found;
  double seconds;
};

Ordered in_least_order(const Graph& graph, double work) {
  const Control clock;
  const remat::StageGraph stages(graph);
  const ordering::LeastPeak found =
      ordering::least_peak(stages, ordering::Precedence(graph, stages), {.work = work}, Control());
  const double seconds = clock.elapsed_seconds();
  const Plan plan = with_in_place(graph, lower(graph, ordering::ops_of(stages, found.stages)));
  if (plan.peak_bytes != found.peak) throw std::logic_error("another peak than was said");
  return {memory_of(graph, plan), found, seconds};
}

void run_graph(const std::string& name, const Graph& graph, const Arguments& arguments) {
  const Graph plain = without_in_place(graph);
  const Memory given = memory_of(plain, keep_all(plain));
  const Memory in_place = memory_of(graph, with_in_place(graph, keep_all(graph)));
  const Ordered order = in_least_order(plain, arguments.work);
  const Ordered both = in_least_order(graph, arguments.work);
  const auto saved = [&](Bytes bytes) {
    return fmt::format("{:.1f}", 100 * (1 - static_cast<double>(bytes) /
                                                static_cast<double>(given.peak)));
  };
  const auto waste = [](const Memory& memory) {
    return fmt::format("{:.2f}", 100 * (static_cast<double>(memory.arena) /
                                            static_cast<double>(memory.peak) - 1));
  };
  fmt::print("| {} | {} | {} | {} | {} | {} | {} | {} | {} / {} / {} / {} | {:.1f} |\n", name,
             graph.num_ops(), format_bytes(given.peak), saved(in_place.peak),
             saved(order.memory.peak), saved(both.memory.peak), saved(both.found.bound),
             both.found.proven() ? "yes" : "no", waste(given), waste(in_place),
             waste(order.memory), waste(both.memory), both.seconds);
  std::fflush(stdout);
}

void run(const Arguments& arguments) {
  fmt::print("| graph | ops | peak | in place % | order % | both % | at most % | proven | "
             "arena above the peak % | s |\n"
             "| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- | ---: | ---: |\n");
  for (const std::string& name : arguments.models) {
    models::ModelOptions sizes;
    sizes.batch = arguments.batch;
    models::OptimizerOptions optimizer;
    optimizer.name = arguments.optimizer;
    run_graph(name, models::training_graph(models::find_model(name), sizes, optimizer), arguments);
  }
  for (const std::string& path : arguments.graphs) {
    run_graph(fs::path(path).stem().string(), read_graph(path), arguments);
  }
}

}  // namespace
}  // namespace lowtide::bench

int main(int argc, char** argv) {
  return bench_main(argc, argv, "orders", "What an order and writes in place save",
                    lowtide::bench::define, lowtide::bench::run);
}
