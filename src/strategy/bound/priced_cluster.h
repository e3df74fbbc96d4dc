#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "strategy/bound/cluster.h"
#include "strategy/bound/prices.h"
#include "strategy/stage_graph.h"

namespace lowtide {

/// What Cluster (strategy/bound/cluster.h) solves, the same to rounding, in memory linear in the
/// values and in time that depends on how many stages have a price: for graphs of many clusters.
///
/// The program runs over the subsets of the cluster's values that may or may not be held: those that
/// were dropped where memory has a price, until a stage needs them. Where memory is free, holding is
/// never worse than dropping, and running early never worse than late: so only what lies around
/// priced stages is decided. O(priced gaps x values x 2^values) and, where few stages have a price,
/// hardly more than O(values x 2^values).
class PricedCluster {
 public:
  /// `ops` in order, with at most Cluster::kMostValues outputs in all.
  PricedCluster(const StageGraph& graph, std::span<const BoundOp> ops);

  /// Room that solve() works in; to be used again.
  struct Scratch;

  /// The least cost of reruns and of held bytes at these prices. Appends the holds of a solution.
  double solve(const Prices& prices, Scratch& scratch, std::vector<Hold>& holds) const;

 private:
  using Subset = std::uint16_t;
  enum class Kind : std::uint8_t {
    make,    ///< the first run: `values` are there from now on
    choose,  ///< ops may run again and values may be dropped, before the payment that comes next
    close,   ///< `values` are of no use any more
    pay,     ///< what is there is paid for over [begin, end); `values` are there in any case
    need     ///< `values` must be there
  };
  struct Step {
    Kind kind;
    Subset values = 0;  ///< of `choose`: those of the payment that comes next
    int begin = 0;      ///< of `choose` too
    int end = 0;
  };
  struct Run {
    Subset in = 0;
    Subset out = 0;
    int deadline = 0;
    double cost = 0;
  };
  class Solving;

  std::vector<int> touching_stages(const StageGraph& graph, std::span<const BoundOp> ops) const;
  Subset subset(std::span<const int> values) const;
  Subset useful_after(const StageGraph& graph, int stage) const;
  void add_gap(const StageGraph& graph, int before, int after);
  void add_first_run(const StageGraph& graph, int stage);

  std::vector<int> values_;
  std::vector<double> bytes_;  // per value
  std::vector<Run> runs_;      // per op, in order
  std::vector<Step> steps_;
};

struct PricedCluster::Scratch {
  /// What became of the subsets in one step, for the way back.
  struct Change {
    Kind kind;
    Subset values = 0;     ///< `make`: dropped for the first time; `need`: loose until now
    Subset certain = 0;    ///< of `pay`: what is held in all subsets
    int begin = 0, end = 0;
    std::size_t from = 0;  ///< of `choose`: where the subsets before it begin
  };
  std::vector<double> least;    ///< per subset of what is loose: the least cost so far
  std::vector<double> bytes;    ///< per subset of the values
  std::vector<Subset> from;     ///< the subset before, per choice and subset
  std::vector<Change> changes;
  double work = 0;              ///< subsets looked at, of all clusters solved so far
};

}  // namespace lowtide
