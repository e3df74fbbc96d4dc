#pragma once

#include <memory>

#include "remat/stage_graph.h"

namespace lowtide::strategy::dtr {

/// What it would cost to have a value back once it was evicted, as the heuristics of DTR reckon:
/// its own op, and some of the evicted values around it. Told of each change, in order.
class RerunCost {
 public:
  virtual ~RerunCost() = default;
  virtual void evicted(int value) = 0;
  virtual void made(int value) = 0;   ///< a value that was evicted
  virtual double of(int value) = 0;   ///< of a value that is there
};

/// Which evicted values count.
enum class Neighbourhood {
  classes,    ///< those connected to it by evicted ones, approximately: a class never splits
  full,       ///< evicted ancestors and descendants that only evicted values part from it
  ancestors,  ///< of those only the ancestors
  none
};

/// The graph must outlive the result.
std::unique_ptr<RerunCost> make_rerun_cost(const remat::StageGraph& graph,
                                           Neighbourhood neighbourhood);

}  // namespace lowtide::strategy::dtr
