#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "parallel/cluster/cluster.h"

namespace lowtide::parallel {

/// Reads a `lowtide-cluster` document (docs/reference/cluster-format.md). Throws InputError that
/// names the file, the key and the rule for any other text.
Cluster read_cluster(const std::filesystem::path& path);
Cluster parse_cluster(std::string_view text, const std::string& source = "cluster");

}  // namespace lowtide::parallel
