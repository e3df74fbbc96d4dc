#pragma once

#include <optional>

#include "ordering/least_peak.h"

namespace lowtide::ordering {

/// What is known of the order of least peak of one graph: a planning asks its strategy several
/// times, and looks for the order once.
class KnownOrder {
 public:
  /// least_peak() of the graph, or what it answered before where that says as much: the best order
  /// was looked for, the one found is good enough, or none was found for a larger peak.
  const LeastPeak& least(const Graph& graph, const remat::StageGraph& stages,
                         const PeakEffort& effort, const Control& control);

 private:
  bool says_enough(std::optional<Bytes> wanted) const;

  std::optional<LeastPeak> found_;
  std::optional<Bytes> wanted_;  // what it was looked for
};

}  // namespace lowtide::ordering
