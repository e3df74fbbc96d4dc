#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/control.h"
#include "remat/event_plan.h"

namespace lowtide::strategy::intervals {

/// What CP-SAT is asked.
struct CpSatRequest {
  Bytes budget = 0;
  int most_intervals = 2;
  int threads = 1;
  int seed = 1;
  std::vector<remat::Event> start = {};  ///< a plan to begin with, or none
  std::function<void(std::span<const remat::Event>)> on_solution = {};
};

/// What it proved.
struct CpSatProof {
  double bound = 0;         ///< no plan with so many intervals costs less
  bool infeasible = false;  ///< there is no plan with so many intervals
};

/// Solves the model of retention intervals (Bartan et al., ICML 2023) with CP-SAT of OR-Tools in a
/// child process, cp_sat.py. Ends it when control says stop; what it found by then was given to
/// on_solution. The interpreter is what LOWTIDE_PYTHON in the environment names, or else the usual
/// one. Throws InputError when that cannot run the program, for lack of OR-Tools say.
CpSatProof solve_with_cp_sat(const remat::StageGraph& graph, const CpSatRequest& request,
                             const Control& control);

/// What is run where the environment names nothing; python3 unless this was called.
void set_usual_interpreter(std::string path);

}  // namespace lowtide::strategy::intervals
