#include "strategy/checkmate/options.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"

namespace lowtide::strategy::checkmate {

std::vector<StrategyOption> with_model_options(std::vector<StrategyOption> own) {
  own.push_back(choice_option(
      "formulation",
      "limits memory during first runs, and during reruns where needed (ends); "
      "during all runs, as in the paper (paper); the same with stronger rows (strong)",
      {"ends", "paper", "strong"}));
  own.push_back(integer_option("rows", "of the largest model that is begun; 0: any", 300'000,
                               {0, 1e9}, "rows"));
  return own;
}

Formulation formulation(const StrategyOptions& options) {
  return static_cast<Formulation>(options.at("formulation"));  // choices in the order of the enum
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
  const StageModel::Size size =
      StageModel::size(request.graph, stages, request.budget_bytes, formulation(request.options));
  refuse_too_large(request.graph, size, request.options.at("rows"),
                   ", or -O rows=0 to try it all the same");
}

}  // namespace lowtide::strategy::checkmate
