#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace lowtide::report {

/// The content of a box; each has a colour.
enum class Content : std::uint8_t {
  parameters,
  optimizer_state,
  other_residents,
  activations,
  recomputed,  ///< made by an execution after the first
  backward,    ///< gradients of activations and the like
  gradients,   ///< of parameters
  update,      ///< made by the optimizer
  workspaces,
  brought_back,
  short_lived,  ///< by its life, when nothing else is known of the buffer
  medium_lived,
  long_lived
};

/// A buffer at its offset, over the half-open interval [begin, end) of times.
struct Box {
  std::int32_t begin = 0, end = 0;
  Bytes offset = 0, bytes = 0;
  Content content = Content::activations;
  std::string name = {};
};

/// A picture of a packing: time from left to right, addresses from bottom to top.
struct LayoutPlot {
  std::string title;
  std::string subtitle;
  std::string time_label;  ///< under the horizontal axis
  std::vector<Box> boxes = {};
  std::optional<Bytes> budget_bytes = {};
};

/// A self-contained SVG document, for light and dark pages: a rectangle for each box with its name,
/// bytes and life as a tooltip; the highest end; the budget; the time when most bytes are alive,
/// and their contents. Throws InputError without boxes that have bytes.
std::string format_layout_plot(const LayoutPlot& plot);

}  // namespace lowtide::report
