#pragma once

#include <optional>
#include <string>

#include "cli/arguments.h"
#include "graph/graph.h"
#include "offload/joint.h"

namespace lowtide::cli {

/// What a user says of slower memory.
struct SlowerArguments {
  std::string bandwidth;  ///< "2GB/s", or "2GB/s,1.6GB/s" for out and in; empty: none
  double latency = 0;     ///< of each copy, in microseconds
  std::string budget;     ///< empty: no limit
};

/// --bandwidth, --latency, --slower-budget.
void add_slower_options(CLI::App& app, SlowerArguments& arguments);

/// In the cost unit of the graph; nothing when no bandwidth is given. Throws InputError for text
/// that is no bandwidth, and for a graph whose costs are no times.
std::optional<offload::Slower> slower_from(const SlowerArguments& arguments, const Graph& graph);

}  // namespace lowtide::cli
