#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "strategy/checkmate/stage_model.h"

namespace lowtide::strategy::checkmate {

/// The model in free MPS format, which HiGHS, SCIP, Gurobi, CPLEX, CBC and others read. Columns
/// have the names of StageModel::column_name.
std::string format_mps(const StageModel& model, std::string_view name);

/// The reruns in a solution file that such a solver wrote for format_mps of an equal model: lines
/// `name value` (HiGHS, SCIP, Gurobi, CBC with an index before the name) or CPLEX's XML. Reads only
/// runs; unlisted runs are 0. Throws InputError that names `source` and the line when a run does
/// not belong to the model or has no number, or when there is no run at all.
std::vector<remat::Event> parse_solution(const StageModel& model, std::string_view text,
                                         std::string_view source);

}  // namespace lowtide::strategy::checkmate
