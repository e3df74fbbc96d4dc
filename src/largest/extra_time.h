#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "graph/graph.h"

namespace lowtide::largest {

/// How much longer than keep-all a step may take.
struct ExtraTime {
  enum class Kind : std::uint8_t {
    any,     ///< a plan need only fit
    share,   ///< of keep-all's time
    forward  ///< the time of one forward pass, as in Checkmate (Jain et al., MLSys 2020)
  };
  Kind kind = Kind::any;
  double share = 0;
};

/// Reads "any", "30%" or "forward". Throws InputError for other texts.
ExtraTime parse_extra_time(std::string_view text);
/// A text that parse_extra_time() reads back.
std::string format_extra_time(const ExtraTime& extra);

/// The most that a plan of this graph may cost; infinite for any.
double cost_limit(const Graph& graph, const ExtraTime& extra);

}  // namespace lowtide::largest
