#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace lowtide {

/// The total bytes of the residents of one kind.
struct ResidentBytes {
  std::string_view what;  ///< "parameters", "optimizer state", "batch", ...
  Bytes bytes = 0;
};

/// The kinds of residents with bytes, largest first. `without`, by tensor: those that do not count;
/// empty: all count.
std::vector<ResidentBytes> residents_by_kind(const Graph& graph,
                                             const std::vector<bool>& without = {});
/// "parameters 97.5 MiB, batch 9.19 MiB"
std::string format_kinds(const std::vector<ResidentBytes>& kinds);

}  // namespace lowtide
