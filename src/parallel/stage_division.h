#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "parallel/schedule.h"

namespace lowtide::parallel {

/// What a stage adds to a step.
struct StageSeconds {
  double forward = 0, backward = 0;  ///< of one micro-batch
  double tail = 0;                   ///< after the last micro-batch, beside other stages' tails
};

/// Of the stage with the units first .. last; nothing where it does not fit its memory.
using StageCost = std::function<std::optional<StageSeconds>(int stage, int first, int last)>;

/// Units divided among stages in order, each with one unit or more.
struct Division {
  std::vector<int> first = {};  ///< per stage: its first unit
  double seconds = 0;           ///< of a step
};

/// How a step's time follows from that of its stages (parallel/schedule.h).
struct DivisionProblem {
  int units = 0;
  Pipeline pipeline;
  StageCost cost;
  /// No division that takes this long or longer is wanted; infinite: all are.
  double less_than = 0;
};

/// The seconds of a step whose stages take these.
double step_seconds(const Pipeline& pipeline, const std::vector<StageSeconds>& stages);

/// The division of the least seconds, or nothing where none is possible in less than the limit. By
/// a dynamic program over stages that keeps, for each number of units, all partial divisions that
/// are best in one of: the sum of times, the slowest forward and backward pass, and the longest
/// tail. Exact, as step_seconds() grows with each of them.
///
/// The idea of dividing a chain with one program over stages and units is that of PipeDream
/// (Narayanan et al., SOSP 2019) and Alpa (Zheng et al., OSDI 2022); the plans of a stage are
/// chosen within its memory by its cost, as in Mist (Zhu et al., EuroSys 2025).
std::optional<Division> best_division(const DivisionProblem& problem);

/// The division whose largest stage needs the fewest bytes. `bytes` of a stage and its units must
/// not shrink with more units.
struct SmallestDivision {
  std::vector<int> first = {};
  std::int64_t bytes = 0;
};
SmallestDivision smallest_division(
    int units, int stages,
    const std::function<std::int64_t(int stage, int first, int last)>& bytes);

}  // namespace lowtide::parallel
