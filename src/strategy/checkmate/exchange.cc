#include "strategy/checkmate/exchange.h"

#include "strategy/checkmate/files.h"
#include "strategy/checkmate/options.h"

namespace lowtide::strategy::checkmate {
namespace {

/// The strongest relaxation of the program: the best for solvers that branch on it.
constexpr Formulation kExported = Formulation::strong;

/// About a gigabyte of text.
constexpr double kMostRows = 5e6;

}  // namespace

ExportedModel export_model(const Graph& graph, Bytes budget) {
  const remat::StageGraph stages(graph);
  refuse_too_large(graph, StageModel::size(graph, stages, budget, kExported), kMostRows, "");
  const StageModel model(graph, stages, budget, kExported);
  return {.mps = format_mps(model, graph.name()),
          .rows = model.program().num_rows(),
          .columns = model.program().num_columns()};
}

std::vector<OpId> import_solution(const Graph& graph, Bytes budget, std::string_view text,
                                  std::string_view source) {
  const remat::StageGraph stages(graph);
  const StageModel model(graph, stages, budget, kExported);
  return remat::executions_of(stages, parse_solution(model, text, source));
}

}  // namespace lowtide::strategy::checkmate
