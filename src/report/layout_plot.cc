#include "report/layout_plot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "report/byte_axis.h"
#include "report/svg.h"

namespace lowtide::report {
namespace {

// The picture, in pixels.
constexpr double kLayoutWidth = 1080, kLayoutHeight = 620;
constexpr Frame kLayoutFrame{.left = 76, .right = 830, .top = 104, .bottom = 540};
constexpr double kSide = kLayoutFrame.right + 26;  // where the legend begins
constexpr double kLegendTop = kLayoutFrame.top + 66, kLegendPitch = 40;
constexpr double kLeast = 0.35;  // of a box's width and height, so that it is visible
constexpr double kEdged = 2.5;   // smaller boxes have no edge, which would hide them
constexpr double kLetter = 5.6;  // approximate width of a small letter

constexpr std::array<std::string_view, 13> kNames{
    "parameters", "optimizer state",        "batch and buffers", "activations",
    "recomputed", "gradients on their way", "gradients",         "update",
    "workspaces", "brought back",           "short lives",       "medium lives",
    "long lives"};

/// Residents are greys; colours stay apart for colour-blind readers.
constexpr std::string_view kLayoutStyle = R"(
.small { font-size: 10px; } .in { fill: #ffffff; }
.edge rect { stroke: #ffffff; stroke-width: 0.5; }
.peak { stroke: #1b2733; stroke-width: 1.2; stroke-dasharray: 3 3; }
.height { stroke: #1b2733; stroke-width: 1.2; }
.budget { stroke: #b3214f; stroke-width: 1.3; stroke-dasharray: 6 4; }
.c0 { fill: #4b5b6b; } .c1 { fill: #73869a; } .c2 { fill: #a3b1bf; } .c3 { fill: #0b7a75; }
.c4 { fill: #e07b2e; } .c5 { fill: #6a5acd; } .c6 { fill: #b3214f; } .c7 { fill: #8a6242; }
.c8 { fill: #d8a917; } .c9 { fill: #2f7fd1; } .c10 { fill: #6fb7b1; } .c11 { fill: #0b7a75; }
.c12 { fill: #07403d; }
@media (prefers-color-scheme: dark) {
.edge rect { stroke: #12181f; } .in { fill: #12181f; } .budget { stroke: #ff7a9f; }
.peak { stroke: #e8eef4; } .height { stroke: #e8eef4; }
.c0 { fill: #8a9bad; } .c1 { fill: #6b7c8d; } .c2 { fill: #4d5b69; } .c3 { fill: #2fc4b2; }
.c4 { fill: #f59a4a; } .c5 { fill: #a99bff; } .c6 { fill: #ff7a9f; } .c7 { fill: #c99a72; }
.c8 { fill: #f3cf5b; } .c9 { fill: #6bb0f5; } .c10 { fill: #1d6f69; } .c11 { fill: #2fc4b2; }
.c12 { fill: #b5f0e8; }
}
)";

std::size_t index(Content content) { return static_cast<std::size_t>(content); }

/// The time when most bytes are alive, and their contents.
struct Peak {
  std::int32_t time = 0;
  Bytes bytes = 0;
  std::array<Bytes, kNames.size()> by_content{};
};

Peak peak_of(const std::vector<Box>& boxes) {
  std::map<std::int32_t, Bytes> changes;
  for (const Box& box : boxes) {
    changes[box.begin] += box.bytes;
    changes[box.end] -= box.bytes;
  }
  Peak peak;
  Bytes alive = 0;
  for (const auto& [time, change] : changes) {
    alive += change;
    if (alive > peak.bytes) peak = {time, alive, {}};
  }
  for (const Box& box : boxes) {
    if (box.begin <= peak.time && peak.time < box.end) {
      peak.by_content[index(box.content)] += box.bytes;
    }
  }
  return peak;
}

/// The boxes that have bytes and a life.
std::vector<Box> visible(std::vector<Box> boxes) {
  std::erase_if(boxes, [](const Box& box) { return box.bytes <= 0 || box.begin >= box.end; });
  if (boxes.empty()) throw InputError("a picture of a layout needs a buffer that takes room.");
  return boxes;
}

Bytes height_of(const std::vector<Box>& boxes) {
  Bytes height = 0;
  for (const Box& box : boxes) height = std::max(height, box.offset + box.bytes);
  return height;
}

/// A box in pixels.
struct Rect {
  double x, y, width, height;
};

/// Draws one plot; every method appends to the document.
class LayoutDrawing {
 public:
  explicit LayoutDrawing(const LayoutPlot& plot)
      : plot_(plot),
        boxes_(visible(plot.boxes)),
        height_(height_of(boxes_)),
        axis_(kLayoutFrame, std::max(height_, plot.budget_bytes.value_or(0)), 0.03),
        svg_(kLayoutWidth, kLayoutHeight, plot.title, plot.subtitle, kLayoutStyle) {
    first_ = boxes_.front().begin;
    last_ = boxes_.front().end;
    for (const Box& box : boxes_) {
      first_ = std::min(first_, box.begin);
      last_ = std::max(last_, box.end);
    }
    peak_ = peak_of(boxes_);
  }

  std::string svg() {
    axis_.draw(svg_, 6);
    add_horizontal_axis();
    for (std::size_t content = 0; content < kNames.size(); ++content) add_boxes(content);
    add_levels();
    add_peak();
    add_names();
    add_legend();
    return svg_.finish();
  }

 private:
  double x(double time) const {
    return kLayoutFrame.left + (kLayoutFrame.right - kLayoutFrame.left) * (time - first_) /
                                   (static_cast<double>(last_) - first_);
  }
  double y(Bytes bytes) const { return axis_.y(bytes); }

  void add_horizontal_axis() {
    const double span = static_cast<double>(last_) - first_;
    const double step = std::max(1.0, tick_step(span, 8));
    for (double time = std::ceil(first_ / step) * step; time <= last_; time += step) {
      svg_.line("axis", {x(time), kLayoutFrame.bottom}, {x(time), kLayoutFrame.bottom + 5});
      svg_.text({x(time), kLayoutFrame.bottom + 21}, "muted", "middle",
                fmt::format("{:.0f}", time));
    }
    svg_.text({(kLayoutFrame.left + kLayoutFrame.right) / 2, kLayoutFrame.bottom + 46}, "muted",
              "middle", plot_.time_label);
  }

  Rect rect(const Box& box) const {
    const double left = x(box.begin), top = y(box.offset + box.bytes);
    return {left, top, std::max(kLeast, x(box.end) - left), std::max(kLeast, y(box.offset) - top)};
  }

  /// All of one colour: the small ones before those with edges.
  void add_boxes(std::size_t content) {
    for (bool edged : {false, true}) {
      svg_.add("<g class=\"{}c{}\">\n", edged ? "edge " : "", content);
      for (const Box& box : boxes_) {
        const Rect at = rect(box);
        const bool has_edge = std::min(at.width, at.height) >= kEdged;
        if (index(box.content) == content && has_edge == edged) add_box(box, at);
      }
      svg_.add("</g>\n");
    }
  }

  void add_box(const Box& box, const Rect& at) {
    svg_.add("<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\"><title>{}, {}, "
             "{} to {}, at {}</title></rect>\n",
             at.x, at.y, at.width, at.height, escaped(box.name), format_bytes(box.bytes), box.begin,
             box.end, box.offset);
  }

  /// In boxes that are large enough for it.
  void add_names() {
    for (const Box& box : boxes_) {
      const Rect at = rect(box);
      const bool fits =
          at.height >= 13 && at.width >= kLetter * static_cast<double>(box.name.size()) + 8;
      if (fits) svg_.text({at.x + 4, at.y + at.height / 2 + 3.5}, "small in", "start", box.name);
    }
  }

  void add_levels() {
    const double top = y(height_);
    svg_.line("height", {kLayoutFrame.left, top}, {kLayoutFrame.right + 18, top});
    double label = std::max(top, kLayoutFrame.top + 4);
    if (plot_.budget_bytes) {
      const double budget = y(*plot_.budget_bytes);
      svg_.line("budget", {kLayoutFrame.left, budget}, {kLayoutFrame.right + 18, budget});
      const bool above = budget <= top;
      const double apart = above ? std::min(budget, label - 17) : std::max(budget, label + 17);
      svg_.text({kSide, apart + 4}, "ink", "start",
                fmt::format("budget {}", format_bytes(*plot_.budget_bytes)));
    }
    svg_.text({kSide, label + 4}, "ink strong", "start",
              fmt::format("height {}", format_bytes(height_)));
  }

  /// In the middle of the time at which most bytes are alive.
  void add_peak() {
    const double at = x(peak_.time + 0.5);
    svg_.line("peak", {at, kLayoutFrame.top - 8}, {at, kLayoutFrame.bottom});
    const char* anchor = at > (kLayoutFrame.left + kLayoutFrame.right) / 2 ? "end" : "start";
    svg_.text({at, kLayoutFrame.top - 14}, "ink strong", anchor,
              fmt::format("most alive: {} at {}", format_bytes(peak_.bytes), peak_.time));
  }

  /// The contents that occur, with their bytes alive at the peak.
  void add_legend() {
    std::array<bool, kNames.size()> occurs{};
    for (const Box& box : boxes_) occurs[index(box.content)] = true;
    double at = kLegendTop;
    svg_.text({kSide, at - 18}, "muted", "start", "alive at that time:");
    for (std::size_t content = 0; content < kNames.size(); ++content) {
      if (!occurs[content]) continue;
      svg_.add("<rect class=\"c{}\" x=\"{:.1f}\" y=\"{:.1f}\" ", content, kSide, at - 9);
      svg_.add("width=\"13\" height=\"13\" rx=\"2\"/>\n");
      svg_.text({kSide + 21, at + 2}, "ink", "start", kNames[content]);
      svg_.text({kSide + 21, at + 18}, "muted", "start", format_bytes(peak_.by_content[content]));
      at += kLegendPitch;
    }
  }

  const LayoutPlot& plot_;
  std::vector<Box> boxes_;
  Bytes height_;
  ByteAxis axis_;
  std::int32_t first_ = 0, last_ = 0;
  Peak peak_;
  Svg svg_;
};

}  // namespace

std::string format_layout_plot(const LayoutPlot& plot) { return LayoutDrawing(plot).svg(); }

}  // namespace lowtide::report
