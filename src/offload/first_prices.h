#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "plan/lanes.h"

namespace lowtide::offload {

/// The values that may move, and the prices of their loads before anything is known of the waits
/// for them. Holds the graph by reference.
class FirstPrices {
 public:
  /// `slower_bytes`: of slower memory; none: no limit.
  FirstPrices(const Graph& graph, const Lanes& lanes, std::optional<Bytes> slower_bytes);

  /// Which values have prices where slower memory is limited: as many as it holds all at once, or
  /// more, as each is there for a part of the step alone.
  enum class Together : std::uint8_t { all_at_once, in_turns };

  /// By storage, for offload/loads.h. Residents have one first. Then values have one whose op takes
  /// `least_worth` times the time of their copies or more, the dearest first.
  std::vector<std::optional<double>> choose(double least_worth, std::span<const TensorId> residents,
                                            Together together) const;

 private:
  bool rests(TensorId id) const;
  double longest_rest(TensorId id) const;
  std::vector<OpId> uses_of(TensorId id) const;
  double worth(TensorId id) const;

  const Graph& graph_;
  const Lanes lanes_;
  const std::optional<Bytes> slower_bytes_;
  std::vector<bool> movable_;
  std::vector<double> begins_;  ///< when each op begins where each runs once, and the end of all
  double total_cost_;
};

}  // namespace lowtide::offload
