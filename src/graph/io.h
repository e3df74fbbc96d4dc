#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "graph/graph.h"

namespace lowtide {

/// Reads a `lowtide-graph` document (docs/reference/graph-format.md). Throws InputError that names
/// the file, the place and the rule for any other text: not JSON, cut short, nested too deep for
/// the format, another format or version, wrong types, broken rules.
Graph read_graph(const std::filesystem::path& path);
Graph parse_graph(std::string_view text, const std::string& source = "graph");

/// Writes to a file next to `path` and renames it, so that a reader never sees half a file.
void write_graph(const Graph& graph, const std::filesystem::path& path);
std::string format_graph(const Graph& graph);

}  // namespace lowtide
