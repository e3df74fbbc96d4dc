#include "cli/plans_of_bound.h"

namespace lowtide::cli {

std::string_view plans_of_bound(std::string_view model) {
  if (model == "any-order") return "all plans";
  if (model == "fixed-order") return "plans in the graph's order";
  if (model == "stages") return "plans in the graph's order, each op once in a stage";
  return "plans in the graph's order, each op once in a stage and seldom";
}

}  // namespace lowtide::cli
