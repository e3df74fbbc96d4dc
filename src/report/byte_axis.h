#pragma once

#include "base/bytes.h"
#include "report/svg.h"

namespace lowtide::report {

/// The area of a picture for its curves or boxes, in pixels.
struct Frame {
  double left, right, top, bottom;
};

/// The vertical axis of a picture: from 0 at the bottom of `frame` to `most` bytes and some space
/// above, in the largest suitable unit.
class ByteAxis {
 public:
  /// `headroom`: share of `most` left free at the top.
  ByteAxis(const Frame& frame, Bytes most, double headroom);

  /// The vertical position of `bytes` in the picture; the bottom if the axis has no bytes at all.
  double y(Bytes bytes) const { return y(static_cast<double>(bytes)); }

  /// Adds the unit, and about `ticks` numbers with lines across the frame.
  void draw(Svg& svg, int ticks) const;

 private:
  double y(double bytes) const;

  Frame frame_;
  ByteUnit unit_;
  double top_bytes_;
};

}  // namespace lowtide::report
