#pragma once

#include <memory>

#include "remat/stage_graph.h"

namespace lowtide::strategy::dtr {

/// The estimated cost to make a value again after its eviction, as in the heuristics of DTR: its
/// own op, and some of the evicted values around it. Must be told of each change, in order.
class RerunCost {
 public:
  virtual ~RerunCost() = default;
  virtual void evicted(int value) = 0;
  virtual void made(int value) = 0;  ///< an evicted value was made again
  virtual double of(int value) = 0;  ///< a value that is in memory
};

/// The evicted values that count.
enum class Neighbourhood {
  classes,    ///< connected to it by evicted ones, approximately: a class never splits
  full,       ///< evicted ancestors and descendants, connected by evicted values only
  ancestors,  ///< only the ancestors of these
  none
};

/// The graph must outlive the result.
std::unique_ptr<RerunCost> make_rerun_cost(const remat::StageGraph& graph,
                                           Neighbourhood neighbourhood);

}  // namespace lowtide::strategy::dtr
