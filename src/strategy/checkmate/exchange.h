#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace lowtide::strategy::checkmate {

/// Checkmate's integer program of a graph, in a form for other solvers.
struct ExportedModel {
  std::string mps;  ///< free MPS format
  int rows = 0;
  int columns = 0;
};

/// Throws InputError when the text would need about a gigabyte or more.
ExportedModel export_model(const Graph& graph, Bytes budget);

/// The order of executions that a solver's solution, given as text, describes. Throws InputError
/// that names `source` where the solution belongs to another model.
std::vector<OpId> import_solution(const Graph& graph, Bytes budget, std::string_view text,
                                  std::string_view source);

}  // namespace lowtide::strategy::checkmate
