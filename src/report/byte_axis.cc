#include "report/byte_axis.h"

#include <fmt/format.h>

namespace lowtide::report {

ByteAxis::ByteAxis(const Frame& frame, Bytes most, double headroom)
    : frame_(frame),
      unit_(byte_unit_for(most)),
      top_bytes_((1 + headroom) * static_cast<double>(most)) {}

double ByteAxis::y(double bytes) const {
  if (top_bytes_ <= 0) return frame_.bottom;
  return frame_.bottom - (frame_.bottom - frame_.top) * bytes / top_bytes_;
}

void ByteAxis::draw(Svg& svg, int ticks) const {
  if (top_bytes_ <= 0) return;
  const double step = tick_step(top_bytes_ / unit_.bytes, ticks);
  for (int i = 0; i * step * unit_.bytes <= top_bytes_; ++i) {
    const double at = y(i * step * unit_.bytes);
    svg.line(i == 0 ? "axis" : "grid", {frame_.left, at}, {frame_.right, at});
    svg.text({frame_.left - 10, at + 4.5}, "muted", "end", fmt::format("{:g}", i * step));
  }
  svg.text({frame_.left - 10, frame_.top - 11}, "muted", "end", unit_.name);
}

}  // namespace lowtide::report
