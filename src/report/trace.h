#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "plan/plan.h"

namespace lowtide::report {

/// The measurements of a run for each action of a plan; either may be empty.
struct Measurements {
  std::span<const double> seconds;  ///< per action
  std::span<const Bytes> memory;    ///< bytes in use after each action, residents included
};

/// A plan or a run as a trace in the JSON format of chrome://tracing, which https://ui.perfetto.dev
/// opens too: a track for each phase with a slice for each execution; reruns are marked "again" and
/// coloured; counter tracks show the bytes in use and the budget. Without measurements, times are
/// the graph's costs (a million flops drawn as a microsecond) and memory is the replay's. Throws
/// std::logic_error when measurements are not one per action.
std::string format_trace(const Graph& graph, const Plan& plan, const Measurements& measured = {});

void write_trace(const Graph& graph, const Plan& plan, const Measurements& measured,
                 const std::filesystem::path& path);

}  // namespace lowtide::report
