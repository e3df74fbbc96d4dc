#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace lowtide::strategy::checkmate {

/// Checkmate's integer program of a graph, for other solvers to solve.
struct ExportedModel {
  std::string mps;  ///< free MPS format
  int rows = 0;
  int columns = 0;
};

/// Throws InputError when the text would take about a gigabyte or more.
ExportedModel export_model(const Graph& graph, Bytes budget);

/// The plan that the text of a solver's solution stands for: the order of executions. Throws
/// InputError that names `source` where the solution is of no equal model.
std::vector<OpId> import_solution(const Graph& graph, Bytes budget, std::string_view text,
                                  std::string_view source);

}  // namespace lowtide::strategy::checkmate
