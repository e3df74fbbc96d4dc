#pragma once

#include <fmt/format.h>

#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "base/bytes.h"

namespace lowtide::report {

/// Escapes text for an element or an attribute.
std::string escaped(std::string_view text);

/// A unit for an axis of bytes.
struct ByteUnit {
  std::string_view name;
  double bytes;
};
/// The largest unit that is no more than `most`.
ByteUnit byte_unit_for(Bytes most);

/// The distance between about `count` ticks up to `most`: 1, 2 or 5 times a power of ten.
double tick_step(double most, int count);

/// A point in a picture, in pixels from the upper left corner.
struct Point {
  double x, y;
};

/// An SVG document under construction. It is a card with a title, for light and dark pages.
class Svg {
 public:
  /// `style`: rules of CSS in addition to those for text, cards, grids and axes.
  Svg(double width, double height, std::string_view title, std::string_view subtitle,
      std::string_view style);

  template <typename... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
  }
  /// Classes for text: ink, muted, title, strong. Nothing for empty content.
  void text(Point at, std::string_view style, std::string_view anchor, std::string_view content);
  /// Classes for lines: grid, axis.
  void line(std::string_view style, Point from, Point to);

  /// Ends the document and returns it.
  std::string finish();

 private:
  std::string text_;
};

}  // namespace lowtide::report
