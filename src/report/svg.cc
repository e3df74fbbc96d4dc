#include "report/svg.h"

#include <array>
#include <cmath>

namespace lowtide::report {
namespace {

constexpr std::string_view kCommonStyle = R"(
text { font-family: Inter, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif; font-size: 13px; }
.card { fill: #ffffff; stroke: #d9dfe6; } .ink { fill: #1b2733; } .muted { fill: #5f6f7f; }
.title { font-size: 19px; font-weight: 600; } .strong { font-weight: 600; }
.grid { stroke: #e6ebf0; } .axis { stroke: #9aa7b4; }
@media (prefers-color-scheme: dark) {
.card { fill: #12181f; stroke: #2b3642; } .ink { fill: #e8eef4; } .muted { fill: #93a3b3; }
.grid { stroke: #222c37; } .axis { stroke: #5f6f7f; }
}
)";

}  // namespace

std::string escaped(std::string_view text) {
  std::string result;
  for (char c : text) {
    switch (c) {
      case '&': result += "&amp;"; break;
      case '<': result += "&lt;"; break;
      case '>': result += "&gt;"; break;
      case '"': result += "&quot;"; break;
      default: result += c;
    }
  }
  return result;
}

ByteUnit byte_unit_for(Bytes most) {
  constexpr std::array<ByteUnit, 4> kUnits{
      {{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}};
  for (const ByteUnit& unit : kUnits) {
    if (static_cast<double>(most) >= unit.bytes) return unit;
  }
  return kUnits.back();
}

double tick_step(double most, int count) {
  const double raw = most / count;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  for (double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= raw) return factor * power;
  }
  return 10 * power;
}

Svg::Svg(double width, double height, std::string_view title, std::string_view subtitle,
         std::string_view style) {
  add("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" role=\"img\">\n", width,
      height);
  add("<title>{}</title>\n<style>{}{}</style>\n", escaped(title), kCommonStyle, style);
  add("<rect class=\"card\" x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" rx=\"10\"/>\n",
      width - 1, height - 1);
  text({28, 38}, "title ink", "start", title);
  text({28, 60}, "muted", "start", subtitle);
}

void Svg::text(Point at, std::string_view style, std::string_view anchor,
               std::string_view content) {
  if (content.empty()) return;
  add("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", style, at.x,
      at.y, anchor, escaped(content));
}

void Svg::line(std::string_view style, Point from, Point to) {
  add("<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", style,
      from.x, from.y, to.x, to.y);
}

std::string Svg::finish() {
  text_ += "</svg>\n";
  return std::move(text_);
}

}  // namespace lowtide::report
