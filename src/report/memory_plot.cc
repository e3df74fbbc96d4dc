#include "report/memory_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "plan/replay.h"
#include "report/byte_axis.h"
#include "report/svg.h"
#include "report/timeline.h"

namespace lowtide::report {
namespace {

// The picture, in pixels.
constexpr double kMemoryWidth = 960, kMemoryHeight = 460;
constexpr Frame kMemoryFrame{.left = 76, .right = 768, .top = 92, .bottom = 396};
constexpr double kLabelPitch = 40;
constexpr std::size_t kColors = 5;

/// The reference is grey; plans have colours that stay apart for colour-blind readers.
constexpr std::string_view kMemoryStyle = R"(
.ground { fill: #1b2733; opacity: 0.09; } .area { opacity: 0.13; stroke: none; }
.curve { fill: none; stroke-width: 1.7; stroke-linejoin: round; }
.budget { stroke-width: 1.3; stroke-dasharray: 6 4; fill: none; }
.f0 { fill: #7b8a99; } .s0 { stroke: #7b8a99; } .f1 { fill: #0b7a75; } .s1 { stroke: #0b7a75; }
.f2 { fill: #d1661c; } .s2 { stroke: #d1661c; } .f3 { fill: #5b4bb7; } .s3 { stroke: #5b4bb7; }
.f4 { fill: #b3214f; } .s4 { stroke: #b3214f; }
@media (prefers-color-scheme: dark) {
.ground { fill: #e8eef4; opacity: 0.10; } .area { opacity: 0.17; }
.f0 { fill: #9aa9b8; } .s0 { stroke: #9aa9b8; } .f1 { fill: #2fc4b2; } .s1 { stroke: #2fc4b2; }
.f2 { fill: #f59a4a; } .s2 { stroke: #f59a4a; } .f3 { fill: #a99bff; } .s3 { stroke: #a99bff; }
.f4 { fill: #ff7a9f; } .s4 { stroke: #ff7a9f; }
}
)";

Bytes peak(const MemoryCurve& curve) {
  return curve.memory.empty() ? 0 : *std::ranges::max_element(curve.memory);
}

/// The largest value on the vertical axis.
Bytes most_bytes(const MemoryPlot& plot) {
  Bytes most = 0;
  for (const MemoryCurve& curve : plot.curves) {
    most = std::max({most, peak(curve), curve.budget_bytes.value_or(0)});
  }
  return most;
}

/// Draws one plot; every method appends to the document.
class MemoryDrawing {
 public:
  explicit MemoryDrawing(const MemoryPlot& plot)
      : plot_(plot),
        reference_(plot.curves.front().end),
        axis_(kMemoryFrame, most_bytes(plot), 0.06),
        svg_(kMemoryWidth, kMemoryHeight, plot.title, plot.subtitle, kMemoryStyle) {
    for (const MemoryCurve& curve : plot.curves) most_time_ = std::max(most_time_, curve.end);
    if (reference_ <= 0) reference_ = most_time_;
  }

  std::string svg() {
    axis_.draw(svg_, 5);
    add_horizontal_axis();
    for (std::size_t i = 0; i < plot_.curves.size(); ++i) add_area(i);
    add_ground();
    for (std::size_t i = 0; i < plot_.curves.size(); ++i) add_curve(i);
    for (std::size_t i = 0; i < plot_.curves.size(); ++i) add_budget(i);
    add_labels();
    return svg_.finish();
  }

 private:
  double x(double time) const {
    return most_time_ > 0
               ? kMemoryFrame.left + (kMemoryFrame.right - kMemoryFrame.left) * time / most_time_
               : kMemoryFrame.left;
  }
  double y(Bytes bytes) const { return axis_.y(bytes); }

  void add_horizontal_axis() {
    if (most_time_ <= 0) return;
    const double step = tick_step(100 * most_time_ / reference_, 6);
    for (int i = 0; i * step / 100 * reference_ <= most_time_; ++i) {
      const double at = x(i * step / 100 * reference_);
      svg_.line("axis", {at, kMemoryFrame.bottom}, {at, kMemoryFrame.bottom + 5});
      svg_.text({at, kMemoryFrame.bottom + 21}, "muted", "middle", fmt::format("{:g}%", i * step));
    }
    svg_.text({(kMemoryFrame.left + kMemoryFrame.right) / 2, kMemoryFrame.bottom + 44}, "muted",
              "middle", fmt::format("time of one step; {} = 100%", plot_.curves.front().label));
  }

  /// Memory held throughout, in front of the areas and under the curves.
  void add_ground() {
    const double top = y(plot_.resident_bytes);
    if (kMemoryFrame.bottom - top < 1) return;
    svg_.add("<rect class=\"ground\" x=\"{}\" y=\"{:.1f}\" width=\"{}\" height=\"{:.1f}\"/>\n",
             kMemoryFrame.left, top, kMemoryFrame.right - kMemoryFrame.left,
             kMemoryFrame.bottom - top);
    if (kMemoryFrame.bottom - top < 18) return;
    svg_.text({kMemoryFrame.left + 10, kMemoryFrame.bottom - 7}, "muted", "start",
              fmt::format("always held: {}", format_bytes(plot_.resident_bytes)));
  }

  /// The corners of a curve, at most four per column of pixels: the column's first, highest,
  /// lowest and last bytes, so that no peak is lost however many actions there are.
  std::vector<Point> corners(const MemoryCurve& curve) const {
    std::vector<Point> points;
    std::size_t i = 0;
    while (i < curve.memory.size()) {
      const double column = std::floor(x(curve.begin[i]));
      const std::size_t first = i;
      while (i < curve.memory.size() && std::floor(x(curve.begin[i])) == column) ++i;
      const auto [low, high] =
          std::minmax_element(curve.memory.begin() + static_cast<std::ptrdiff_t>(first),
                              curve.memory.begin() + static_cast<std::ptrdiff_t>(i));
      for (Bytes bytes : {curve.memory[first], *high, *low, curve.memory[i - 1]}) {
        const Point point{x(curve.begin[first]), y(bytes)};
        if (points.empty() || points.back().x != point.x || points.back().y != point.y) {
          points.push_back(point);
        }
      }
    }
    return points;
  }

  /// A path along the corners as steps: level until the next corner's time.
  std::string steps(const MemoryCurve& curve) const {
    std::string path;
    double at = -1;
    for (const Point& p : corners(curve)) {
      if (p.x != at) path += path.empty() ? "" : fmt::format("H{:.1f}", p.x);
      path += path.empty() ? fmt::format("M{:.1f} {:.1f}", p.x, p.y) : fmt::format("V{:.1f}", p.y);
      at = p.x;
    }
    return path + fmt::format("H{:.1f}", x(curve.end));
  }

  void add_area(std::size_t i) {
    const MemoryCurve& curve = plot_.curves[i];
    if (curve.memory.empty()) return;
    svg_.add("<path class=\"area f{}\" d=\"{}V{:.1f}H{:.1f}Z\"/>\n", i % kColors, steps(curve),
             kMemoryFrame.bottom, x(curve.begin.front()));
  }

  void add_curve(std::size_t i) {
    const MemoryCurve& curve = plot_.curves[i];
    if (curve.memory.empty()) return;
    svg_.add("<path class=\"curve s{}\" d=\"{}\"/>\n", i % kColors, steps(curve));
  }

  void add_budget(std::size_t i) {
    const MemoryCurve& curve = plot_.curves[i];
    if (!curve.budget_bytes) return;
    const double at = y(*curve.budget_bytes);
    svg_.line(fmt::format("budget s{}", i % kColors), {kMemoryFrame.left, at},
              {kMemoryFrame.right + 14, at});
  }

  /// One label a curve, to the right, at the height of its budget or peak; pushed apart.
  void add_labels() {
    std::vector<std::pair<double, std::size_t>> places;
    for (std::size_t i = 0; i < plot_.curves.size(); ++i) {
      const MemoryCurve& curve = plot_.curves[i];
      places.emplace_back(y(curve.budget_bytes.value_or(peak(curve))), i);
    }
    std::ranges::sort(places);
    double lowest = kMemoryFrame.top - kLabelPitch;
    for (const auto& [at, i] : places) {
      lowest = std::max(at, lowest + kLabelPitch);
      add_label(i, lowest);
    }
  }

  void add_label(std::size_t i, double at) {
    const MemoryCurve& curve = plot_.curves[i];
    svg_.text({kMemoryFrame.right + 20, at - 2}, fmt::format("strong f{}", i % kColors), "start",
              curve.label);
    std::string detail = fmt::format("peak {}", format_bytes(peak(curve)));
    if (i > 0) detail += fmt::format(", {:+.1f}% time", 100 * (curve.end / reference_ - 1));
    svg_.text({kMemoryFrame.right + 20, at + 15}, "muted", "start", detail);
  }

  const MemoryPlot& plot_;
  double reference_;
  ByteAxis axis_;
  double most_time_ = 0;
  Svg svg_;
};

}  // namespace

MemoryCurve memory_curve(const Graph& graph, const Plan& plan, std::string label) {
  MemoryCurve curve;
  curve.label = std::move(label);
  Replay replayed = replay(graph, plan);
  curve.memory = std::move(replayed.memory);
  curve.budget_bytes = plan.budget_bytes;
  for (const Moment& moment : timeline(graph, plan)) curve.begin.push_back(moment.reached);
  curve.end = replayed.cost;
  return curve;
}

std::string format_memory_plot(const MemoryPlot& plot) {
  if (plot.curves.empty()) throw InputError("a picture of memory needs at least one plan.");
  return MemoryDrawing(plot).svg();
}

void write_memory_plot(const MemoryPlot& plot, const std::filesystem::path& path) {
  write_file(path, format_memory_plot(plot));
}

}  // namespace lowtide::report
