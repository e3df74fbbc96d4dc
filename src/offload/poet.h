#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/control.h"
#include "plan/lanes.h"
#include "plan/plan.h"
#include "remat/event_plan.h"
#include "strategy/checkmate/stage_model.h"

/// The integer program of Patil et al. (POET: Training neural networks on tiny devices with
/// integrated rematerialization and paging, ICML 2022), to compare with: Checkmate's program in
/// which a value may also be loaded from slower memory (strategy/checkmate/stage_model.h). A value
/// may be rerun in one stage and loaded in another. Residents do not move.
///
/// The paper minimizes energy, within a limit of time; here runs and copies cost their time. A copy
/// counts as if ops waited for it. In the plan copies go on beside ops, so it ends no later than
/// the program says. The program knows no limit of slower memory. It counts all writes in place
/// that ops allow. Not every plan has all of them, so one may need more than the budget.
namespace lowtide::offload {

using PoetLoad = strategy::checkmate::StageModel::Load;

/// A solution of the program.
struct PoetAnswer {
  std::vector<remat::Event> reruns;
  std::vector<PoetLoad> loads;  ///< by stage
  double cost = 0;              ///< of all runs and copies, one after another
  bool is_optimal = false;
};

/// The best that was found until `control` said stop; nothing where that is none. Throws InputError
/// where the program is too large, or Lowtide has no solver.
std::optional<PoetAnswer> solve_poet(const Graph& graph, const remat::StageGraph& stages,
                                     Bytes budget, const Lanes& lanes, const Control& control);

/// Loads come at the start of their stages, before the reruns.
Plan plan_of_answer(const Graph& graph, const remat::StageGraph& stages, const PoetAnswer& answer,
                    const Lanes& lanes, Bytes budget, const Control& control);

/// Both.
std::optional<Plan> poet(const Graph& graph, Bytes budget, const Lanes& lanes,
                         const Control& control);

}  // namespace lowtide::offload
