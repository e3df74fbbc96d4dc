#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"

namespace lowtide::estimate {

/// Bytes of one part of a step's memory, of one layer, or of one kind of op.
struct Part {
  std::string name;
  Bytes bytes = 0;
  bool operator==(const Part&) const = default;
};

/// What a plan within a budget makes of the same step.
struct PlannedPeak {
  Bytes budget_bytes = 0;
  std::string strategy;
  Bytes peak_bytes = 0;
  double overhead = 0;  ///< of time, beside keep-all
};

/// The memory of a training step, known before it runs.
struct Estimate {
  std::string name;
  std::int64_t parameters = 0;  ///< numbers, not bytes
  /// Each part in full, whenever it is there: parameters, buffers, batch, optimizer state,
  /// gradients, activations. They are not all there at one time.
  std::vector<Part> whole = {};
  /// The activations: values of the forward pass that are there when it is over. Each list adds up
  /// to them, largest first; a list is empty where nothing is known.
  std::vector<Part> by_layer = {}, by_kind = {};
  std::vector<Part> at_peak = {};  ///< adds up to peak_bytes
  Bytes peak_bytes = 0;
  /// The peak where results are written over inputs that are not needed any more, as `lowtide
  /// train` does; of graphs alone.
  std::optional<Bytes> in_place_peak_bytes = {};
  std::string peak_op = {};             ///< that runs at the peak; "" for none
  std::string peak_phase = {};          ///< forward, backward, optimizer
  std::vector<std::string> notes = {};  ///< what is not counted, and on what the numbers rest
  std::optional<PlannedPeak> planned = {};
};

/// Adds to the part of this name, which it appends where it is missing. Without bytes: nothing.
void add_to(std::vector<Part>& parts, std::string_view name, Bytes bytes);

Bytes sum(std::span<const Part> parts);

/// 0 for a part that is not there.
Bytes bytes_of(std::span<const Part> parts, std::string_view name);

}  // namespace lowtide::estimate
