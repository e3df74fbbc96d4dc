#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "offload/loads.h"
#include "offload/residents.h"
#include "offload/schedule.h"
#include "plan/in_place.h"
#include "plan/lower.h"
#include "support/random_graph.h"

namespace lowtide::testing {

/// What may move in a random plan.
enum class Movers : std::uint8_t { values, residents_too };

/// Prices of loads for about half of the storages that may move.
inline std::vector<std::optional<double>> some_prices(const Graph& graph, std::uint64_t seed,
                                                      Movers movers = Movers::values) {
  std::mt19937_64 random(seed);
  std::vector<std::optional<double>> prices(graph.tensors().size());
  std::vector<bool> movable = offload::movable(graph);
  const std::vector<bool> residents = offload::movable_residents(graph);
  for (TensorId id = 0; movers == Movers::residents_too && id < graph.num_tensors(); ++id) {
    if (residents[id]) movable[id] = true;
  }
  for (TensorId id = 0; id < graph.num_tensors(); ++id) {
    const bool chosen = random() % 2 == 0;
    if (movable[id] && chosen) prices[id] = static_cast<double>(random() % 16) / 4;
  }
  return prices;
}

/// From no time at all to longer than a random graph takes. Copies have whole quarters of time.
inline Lanes some_lanes(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  constexpr double kLatencies[] = {0, 0, 0.25, 4, 60, 1000};
  constexpr double kTimesOf1024[] = {0, 0.5, 4, 32, 256};
  const auto lane = [&]() -> Lane {
    const double latency = kLatencies[random() % std::size(kLatencies)];
    return {latency, kTimesOf1024[random() % std::size(kTimesOf1024)] / 1024};
  };
  const Lane out = lane(), in = lane();
  return {out, in, random() % 2 == 0};
}

/// A graph, the same with loads of some values, and a random plan for that.
struct RandomMoves {
  explicit RandomMoves(std::uint64_t seed, const RandomGraphOptions& options = {},
                       Movers movers = Movers::values)
      : graph(random_graph(seed, options)),
        loads(offload::with_loads(graph, some_prices(graph, seed, movers))),
        plan(with_in_place(loads.graph, lower(loads.graph, random_executions(loads.graph, seed)))) {
  }

  Plan scheduled(const Lanes& lanes, Bytes budget, double hurry) const {
    return offload::schedule(graph, loads, plan, {lanes}, budget, std::span(&hurry, 1));
  }
  /// When each copy ends at once, and no load begins before it must.
  Plan instant() const { return scheduled({}, 0, 1); }

  Graph graph;
  offload::LoadGraph loads;
  Plan plan;
};

}  // namespace lowtide::testing
