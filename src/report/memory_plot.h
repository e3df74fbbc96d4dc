#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace lowtide::report {

/// Bytes in use over the time of one step.
struct MemoryCurve {
  std::string label;          ///< "keep-all", "60%"
  std::vector<double> begin;  ///< when each action begins, in the graph's cost unit
  double end = 0;             ///< of the last action
  std::vector<Bytes> memory;  ///< in use during each action, residents included
  std::optional<Bytes> budget_bytes;
};

/// The curve of a valid plan; throws InputError when it breaks a rule.
MemoryCurve memory_curve(const Graph& graph, const Plan& plan, std::string label);

/// A picture of one or several plans of one graph. The first curve is the reference: its time is
/// 100% of the horizontal axis.
struct MemoryPlot {
  std::string title;
  std::string subtitle;
  std::vector<MemoryCurve> curves;
  Bytes resident_bytes = 0;  ///< shown as the minimum of any plan
};

/// A self-contained SVG document, for light and dark pages. Throws InputError without curves.
std::string format_memory_plot(const MemoryPlot& plot);

void write_memory_plot(const MemoryPlot& plot, const std::filesystem::path& path);

}  // namespace lowtide::report
