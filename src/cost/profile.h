#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace lowtide {

/// What was measured of one (op, argument values, shapes, dtypes, strides).
struct OpProfile {
  double microseconds = 0;
  Bytes workspace_bytes = 0;
  std::vector<Allocation> allocations;
};

/// Measurements of one device, reusable across graphs and runs.
struct Profile {
  std::string device;  ///< processor or GPU name, threads and library version
  std::map<std::string, OpProfile> ops;  ///< by profile_key()
};

/// What makes two executions alike: op type, arguments, dtypes, shapes and strides of the inputs.
std::string profile_key(const Graph& graph, OpId op);

/// Throws InputError for a broken file. A file that does not exist is an empty profile.
Profile read_profile(const std::filesystem::path& path);
void write_profile(const Profile& profile, const std::filesystem::path& path);

/// The graph with times, workspaces and allocation sequences from `profile` where it has them, and
/// the roofline estimate elsewhere (Op::cost_estimated says which).
Graph priced(const Graph& graph, const Profile& profile);

}  // namespace lowtide
