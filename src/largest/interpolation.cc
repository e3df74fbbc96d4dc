#include "largest/interpolation.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "base/at.h"
#include "cost/roofline.h"
#include "graph/boundary.h"
#include "graph/extent.h"
#include "plan/replay.h"
#include "planner/transfer.h"

namespace lowtide::largest {
namespace {

/// A size of an op, and what was measured there.
struct Point {
  double size = 0;
  double value = 0;
};

/// A slope that grows no faster than the size does, and does not fall.
double plausible_slope(double slope, const Point& from) {
  const double through_origin = from.size > 0 ? from.value / from.size : 0;
  return std::clamp(slope, 0.0, through_origin);
}

double slope_between(const Point& a, const Point& b) {
  return b.size > a.size ? (b.value - a.value) / (b.size - a.size) : 0;
}

/// The line at `size`. The points rise in both numbers; there is at least one.
double on_lines(const std::vector<Point>& points, double size) {
  const Point& first = points.front();
  const Point& last = points.back();
  const auto beyond = [size](const Point& from, double slope) {
    return from.value + plausible_slope(slope, from) * (size - from.size);
  };
  if (points.size() == 1) return beyond(first, first.size > 0 ? first.value / first.size : 0);
  if (size <= first.size) return beyond(first, slope_between(first, points[1]));
  if (size >= last.size) return beyond(last, slope_between(points[points.size() - 2], last));
  const auto above = std::ranges::upper_bound(points, size, {}, &Point::size);
  const Point& below = *(above - 1);
  return below.value + slope_between(below, *above) * (size - below.size);
}

/// In rising order of sizes; one point for each size, whose value `choose` has of two.
std::vector<Point> sorted(std::vector<Point> points,
                          const double& (*choose)(const double&, const double&)) {
  std::ranges::sort(points, {}, &Point::size);
  std::vector<Point> distinct;
  for (const Point& point : points) {
    if (!distinct.empty() && distinct.back().size == point.size) {
      distinct.back().value = choose(distinct.back().value, point.value);
    } else {
      distinct.push_back(point);
    }
  }
  return distinct;
}

/// Times too long for their work are lowered to those of more work.
std::vector<Point> rising_times(std::vector<Point> points) {
  points = sorted(std::move(points), std::min<double>);
  for (std::size_t i = points.size() - 1; i > 0; --i) {
    points[i - 1].value = std::min(points[i - 1].value, points[i].value);
  }
  return points;
}

/// Workspaces too small for their bytes are raised to those of fewer bytes.
std::vector<Point> rising_workspaces(std::vector<Point> points) {
  points = sorted(std::move(points), std::max<double>);
  for (std::size_t i = 1; i < points.size(); ++i) {
    points[i].value = std::max(points[i - 1].value, points[i].value);
  }
  return points;
}

double work(const Graph& graph, OpId id) {
  constexpr double kMicro = 1e6;
  const cost::DeviceRates& rates = cost::default_rates();
  return cost::roofline_microseconds(graph, id, rates) - kMicro * rates.seconds_per_op;
}

double touched(const Graph& graph, OpId id) {
  return static_cast<double>(touched_bytes(graph, graph.op(id)));
}

double time_of(const Graph& graph, OpId id, std::span<const Graph> measured) {
  std::vector<Point> times;
  for (const Graph& other : measured) {
    if (!other.op(id).cost_estimated) times.push_back({work(other, id), other.op(id).cost});
  }
  return std::max(0.0, on_lines(rising_times(std::move(times)), work(graph, id)));
}

Bytes workspace_of(const Graph& graph, OpId id, std::span<const Graph> measured, Bytes alignment) {
  std::vector<Point> workspaces;
  for (const Graph& other : measured) {
    const Op& op = other.op(id);
    if (op.cost_estimated) continue;
    workspaces.push_back({touched(other, id), static_cast<double>(op.workspace_bytes)});
  }
  const double bytes = on_lines(rising_workspaces(std::move(workspaces)), touched(graph, id));
  return align_up(static_cast<Bytes>(std::ceil(std::max(0.0, bytes))), alignment);
}

void require_same_structure(const Graph& graph, std::span<const Graph> measured) {
  const bool same = std::ranges::all_of(
      measured, [&](const Graph& other) { return planner::same_structure(graph, other); });
  if (same && !measured.empty()) return;
  throw std::logic_error("times are interpolated between graphs of one structure");
}

}  // namespace

Graph interpolated(const Graph& graph, std::span<const Graph> measured) {
  require_same_structure(graph, measured);
  const Graph& first = measured.front();
  GraphData data = graph.data();
  data.cost_unit = first.cost_unit();
  data.device = first.device();
  data.alignment = first.alignment();
  for (OpId id = 0; id < graph.num_ops(); ++id) {
    Op& op = data.ops[at(id)];
    op.cost_estimated = true;
    const bool is_known = std::ranges::any_of(
        measured, [id](const Graph& other) { return !other.op(id).cost_estimated; });
    if (is_boundary(op) || !is_known) continue;
    op.cost = time_of(graph, id, measured);
    op.workspace_bytes = workspace_of(graph, id, measured, data.alignment);
    op.allocations.clear();
  }
  return Graph(std::move(data));
}

InterpolationError interpolation_error(const Graph& interpolated, const Graph& measured) {
  struct OpError {
    double error, cost;
  };
  const KeepAll guess = keep_all_reference(interpolated), truth = keep_all_reference(measured);
  std::vector<OpError> errors;
  for (OpId id = 0; id < measured.num_ops(); ++id) {
    const double cost = measured.op(id).cost;
    if (cost > 0) errors.push_back({std::abs(interpolated.op(id).cost / cost - 1), cost});
  }
  std::ranges::sort(errors, {}, &OpError::error);
  InterpolationError result;
  double so_far = 0;
  for (const auto& [error, cost] : errors) {
    so_far += cost;
    result.median_op = error;
    if (2 * so_far >= truth.cost) break;
  }
  if (truth.cost > 0) result.step = guess.cost / truth.cost - 1;
  result.peak = static_cast<double>(guess.peak_bytes) / static_cast<double>(truth.peak_bytes) - 1;
  return result;
}

}  // namespace lowtide::largest
