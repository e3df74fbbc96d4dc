// How the core scales: each step from file to addresses on training graphs of 1k to 100k ops.

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <map>

#include "bounds/certificate.h"
#include "certify/check.h"
#include "graph/io.h"
#include "graph/validate.h"
#include "layout/layout.h"
#include "plan/io.h"
#include "plan/lower.h"
#include "plan/replay.h"
#include "plan/verify.h"
#include "step_graph.h"

namespace lowtide::bench {
namespace {

const Graph& graph_of(benchmark::State& state) {
  static std::map<std::int64_t, Graph> graphs;
  const std::int64_t ops = state.range(0);
  const auto found = graphs.find(ops);
  if (found != graphs.end()) return found->second;
  return graphs.emplace(ops, StepGraph(static_cast<int>(ops)).make()).first->second;
}

void load(benchmark::State& state) {
  const std::string text = format_graph(graph_of(state));
  for (auto _ : state) benchmark::DoNotOptimize(parse_graph(text));
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(text.size()));
}

void check_graph(benchmark::State& state) {
  const GraphData& data = graph_of(state).data();
  for (auto _ : state) validate(data);
}

void lower_keep_all(benchmark::State& state) {
  const Graph& graph = graph_of(state);
  for (auto _ : state) benchmark::DoNotOptimize(keep_all(graph));
}

void replay_keep_all(benchmark::State& state) {
  const Graph& graph = graph_of(state);
  const Plan plan = keep_all(graph);
  for (auto _ : state) benchmark::DoNotOptimize(replay(graph, plan));
}

void lay_out(benchmark::State& state) {
  const Graph& graph = graph_of(state);
  const Plan plan = keep_all(graph);
  Layout layout;
  for (auto _ : state) layout = layout::assign_addresses(graph, plan);
  state.counters["arena/peak"] =
      static_cast<double>(layout.arena_bytes) / static_cast<double>(plan.peak_bytes);
}

/// Checks actions and addresses.
void verify_keep_all(benchmark::State& state) {
  const Graph& graph = graph_of(state);
  Plan plan = keep_all(graph);
  plan.layout = layout::assign_addresses(graph, plan);
  for (auto _ : state) {
    if (const auto violation = verify(graph, plan)) {
      state.SkipWithError(violation->message.c_str());
      return;
    }
  }
}

void load_plan(benchmark::State& state) {
  const std::string text = format_plan(keep_all(graph_of(state)));
  for (auto _ : state) benchmark::DoNotOptimize(parse_plan(text));
}

/// Makes a bound at 70% of the peak, with clusters of eight values.
void prove_bound(benchmark::State& state) {
  const Graph& graph = graph_of(state);
  const remat::StageGraph stages(graph);
  const auto budget =
      static_cast<Bytes>(0.7 * static_cast<double>(keep_all_reference(graph).peak_bytes));
  bounds::PriceBound bound(stages, budget);
  for (int values : {1, 8}) bound.raise(values, bounds::Gluing::loose, 1e8, Control());
  const certify::Certificate certificate = bounds::certificate_of(graph, stages, bound, budget);
  double proved = 0;
  for (auto _ : state) {
    const auto verdict = certify::proved_bound(graph, certificate);
    if (const certify::Refused* refused = std::get_if<certify::Refused>(&verdict)) {
      state.SkipWithError(refused->message.c_str());
      return;
    }
    proved = std::get<double>(verdict);
  }
  state.counters["overhead_percent"] = 100 * (proved / stages.required_cost() - 1);
}

void scales(benchmark::internal::Benchmark* benchmark) {
  benchmark->Arg(1'000)->Arg(10'000)->Arg(100'000)->Unit(benchmark::kMillisecond);
}

BENCHMARK(load)->Apply(scales);
BENCHMARK(check_graph)->Apply(scales);
BENCHMARK(lower_keep_all)->Apply(scales);
BENCHMARK(replay_keep_all)->Apply(scales);
BENCHMARK(verify_keep_all)->Apply(scales);
BENCHMARK(lay_out)->Apply(scales);
BENCHMARK(load_plan)->Apply(scales);
BENCHMARK(prove_bound)->Apply(scales);

}  // namespace
}  // namespace lowtide::bench

BENCHMARK_MAIN();
