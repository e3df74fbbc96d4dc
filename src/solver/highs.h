#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/control.h"
#include "solver/linear_program.h"

namespace lowtide::solver {

/// Settings of a solve, apart from the program.
struct SolverRequest {
  bool relaxed = false;  ///< solve the linear relaxation
  double gap = 0;        ///< stop when the best solution is within this share of the bound
  int threads = 1;
  std::int64_t most_nodes = -1;  ///< of the tree of branches; negative: no limit
  std::vector<double> start;     ///< a feasible solution to begin with, or empty
  /// Told of each better solution of a mixed-integer program as it is found; may be empty.
  std::function<void(std::span<const double> values)> on_solution;
  /// Called now and then with the proved bound and the objective of the best solution so far
  /// (infinite before there is one); may be empty.
  std::function<void(double bound, double best)> on_progress;
};

struct Solved {
  enum class Status : std::uint8_t { optimal, infeasible, stopped };
  Status status = Status::stopped;
  std::vector<double> values;     ///< of the best solution; empty when there is none
  std::vector<double> row_duals;  ///< of a relaxation, when the solver has them
  double bound = 0;               ///< no solution has a lower objective; minus infinity: unknown
};

/// About the time of the linear relaxation, with which a solve of a mixed-integer program begins.
/// HiGHS asks for the limit only after it.
double relaxation_seconds(std::int64_t rows);

/// Solves a program with bounded columns with HiGHS, until `control` says stop. One solve at a time
/// in a process: HiGHS keeps one pool of threads. Throws Error when HiGHS fails.
Solved solve_with_highs(const LinearProgram& program, const SolverRequest& request,
                        const Control& control);

}  // namespace lowtide::solver
