#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "strategy/bound/contraction.h"
#include "strategy/bound/prices.h"
#include "strategy/bound/subset_table.h"
#include "strategy/stage_graph.h"

namespace lowtide {

/// The value is held while the first runs of the stages [begin, end) go on.
struct Hold {
  int value;
  int begin, end;
  bool free;  ///< a stage that reads or makes the value: part of what that stage needs in any case
};

/// A few neighbouring ops whose outputs are decided together and exactly: which of them are held
/// and which are made again, for every stage that reads one of them, at given prices. Values made
/// elsewhere are taken to be there for nothing, and memory inside a stage does not count; both only
/// lower the result.
///
/// The program runs over the subsets of the cluster's values that are held, from each stage that
/// touches them to the next (strategy/bound/subset_table.h). Over stages without a price all are
/// held. So it takes as long as there are stages with a price and values dropped over them.
class Cluster {
 public:
  static constexpr int kMostValues = SubsetTable::kMostValues;

  /// `ops` in order, with at most kMostValues outputs in all.
  Cluster(const StageGraph& graph, std::vector<BoundOp> ops);

  /// Room that solve() works in; to be used again.
  struct Scratch;

  /// The least cost of reruns and of held bytes at these prices. Appends the holds of a solution.
  /// `table` is room to work in, to be used again, and counts the work.
  double solve(const Prices& prices, SubsetTable& table, std::vector<Hold>& holds) const;

 private:
  using Values = SubsetTable::Values;
  enum class Kind : std::uint8_t {
    make,   ///< the first run: `out` is there from now on
    run,    ///< the op may run again: makes `out` from `in`
    drop,   ///< each of `out` may be dropped
    close,  ///< `out` is of no use any more
    pay,    ///< what is there is paid for over [begin, end); `in` is there in any case
    need    ///< `in` must be there
  };
  struct Step {
    Kind kind;
    Values in = 0;
    Values out = 0;
    double cost = 0;
    /// Stages. To hold over them is free when they have no price: then nothing need be dropped, nor
    /// run before it is needed.
    int begin = 0;
    int end = 0;
    bool needed = false;  ///< of a run: it is a choice whatever the price
  };

  std::vector<int> touching_stages(const StageGraph& graph) const;
  Values subset(std::span<const int> values) const;
  Values closure(Values values) const;
  Values useful_after(const StageGraph& graph, int stage) const;
  void close(Values useful);
  void add_choices(int stage, int begin, int end, Values needed);
  void add_gap(const StageGraph& graph, int before, int after);
  void add_first_run(const StageGraph& graph, int stage);
  static void take(const Step& step, const Prices& prices, SubsetTable& table);

  std::vector<BoundOp> ops_;
  std::vector<int> values_;
  std::vector<double> bytes_;  // per value
  std::vector<Step> steps_;
  Values open_ = 0;  // while the steps are laid out: made, and still of use
};

}  // namespace lowtide
