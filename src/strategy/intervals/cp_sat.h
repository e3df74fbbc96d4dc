#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/control.h"
#include "remat/event_plan.h"

namespace lowtide::strategy::intervals {

/// The input of CP-SAT.
struct CpSatRequest {
  Bytes budget = 0;
  int most_intervals = 2;
  int threads = 1;
  int seed = 1;
  std::vector<remat::Event> start = {};  ///< a plan to begin with, or none
  std::function<void(std::span<const remat::Event>)> on_solution = {};
};

/// The bounds that CP-SAT proved.
struct CpSatProof {
  double bound = 0;         ///< no plan with this many intervals costs less
  bool infeasible = false;  ///< there is no plan with this many intervals
};

/// Solves the model of retention intervals (Bartan et al., ICML 2023) with CP-SAT of OR-Tools in a
/// child process, cp_sat.py. Ends it when control says stop; on_solution has then received each
/// plan found. The interpreter is the one that LOWTIDE_PYTHON in the environment names, or else the
/// usual one. Throws InputError when it cannot run the program, for example without OR-Tools.
CpSatProof solve_with_cp_sat(const remat::StageGraph& graph, const CpSatRequest& request,
                             const Control& control);

/// Sets the interpreter to use when the environment names none; python3 by default.
void set_usual_interpreter(std::string path);

}  // namespace lowtide::strategy::intervals
