#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cli/arguments.h"
#include "graph/graph.h"
#include "offload/joint.h"

namespace lowtide::cli {

/// What a user says of a place of slower memory.
struct PlaceArguments {
  std::string bandwidth;  ///< "2GB/s", or "2GB/s,1.6GB/s" for out and in; empty: none
  double latency = 0;     ///< of each copy, in microseconds
  std::string budget;     ///< empty: no limit
};

struct SlowerArguments {
  PlaceArguments only;        ///< --bandwidth, --latency, --slower-budget
  PlaceArguments host, disk;  ///< --host-bandwidth and so on: two places, or one of them

  bool is_given() const {
    return !only.bandwidth.empty() || !host.bandwidth.empty() || !disk.bandwidth.empty();
  }
};

void add_slower_options(CLI::App& app, SlowerArguments& arguments);

/// Of "2GB/s" or "2GB/s,1.6GB/s" and microseconds of latency. Throws InputError that names the
/// option of the bandwidth.
slower::LaneSpeed parse_speed(std::string_view bandwidth, double latency, std::string_view option);

/// In the cost unit of the graph; nothing when no bandwidth is given. Throws InputError for text
/// that is no bandwidth, and for a graph whose costs are no times.
std::optional<offload::Slower> slower_from(const SlowerArguments& arguments, const Graph& graph);

}  // namespace lowtide::cli
