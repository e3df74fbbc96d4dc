#include "strategy/checkmate/options.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"

namespace lowtide::strategy::checkmate {

std::vector<StrategyOption> with_model_options(std::vector<StrategyOption> own) {
  own.push_back({"formulation",
                 "0: limits memory during first runs, during reruns where needed; 1: during all "
                 "runs, as in the paper; 2: the same with stronger rows",
                 0, 0, 2});
  own.push_back({"rows", "the largest model that is begun; 0: any", 300'000, 0, 1e9});
  return own;
}

Formulation formulation(const StrategyOptions& options) {
  const double choice = options.at("formulation");
  if (choice < 1) return Formulation::ends;
  return choice < 2 ? Formulation::paper : Formulation::strong;
}

void refuse_too_large(const Graph& graph, StageModel::Size size, double limit,
                      std::string_view way_on) {
  if (limit == 0 || static_cast<double>(size.rows) <= limit) return;
  throw InputError(fmt::format(
      "the integer program of {} would have {} rows and {} columns, more than {:.0f} rows: use the "
      "strategy search, a smaller graph{}.",
      graph.name(), size.rows, size.columns, limit, way_on));
}

void refuse_too_large(const PlanRequest& request, const remat::StageGraph& stages) {
  const StageModel::Size size = StageModel::size(request.graph, stages, request.budget_bytes,
                                                 formulation(request.options));
  refuse_too_large(request.graph, size, request.options.at("rows"),
                   ", or -O rows=0 to try it nevertheless");
}

}  // namespace lowtide::strategy::checkmate
