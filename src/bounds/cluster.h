#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bounds/contraction.h"
#include "bounds/subset_table.h"
#include "remat/prices.h"
#include "remat/stage_graph.h"

namespace lowtide::bounds {

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
/// touches them to the next (bounds/subset_table.h). Over stages without a price all are
/// held. So it takes as long as there are stages with a price and values dropped over them.
class Cluster {
 public:
  static constexpr int kMostValues = SubsetTable::kMostValues;

  /// `ops` in order, with at most kMostValues outputs in all.
  Cluster(const remat::StageGraph& graph, std::span<const BoundOp> ops);

  /// Room that solve() works in; to be used again.
  struct Scratch;

  /// The least cost of reruns and of held bytes at these prices. Appends the holds of a solution.
  /// `table` is room to work in, to be used again, and counts the work.
  double solve(const remat::Prices& prices, SubsetTable& table, std::vector<Hold>& holds) const;

  /// Of values of the cluster: bit k is the k-th output of its ops.
  using Values = SubsetTable::Values;

  /// What is left to pay from just before the reruns of a stage on.
  struct Completion {
    Values open = 0;            ///< values that may be there and matter
    std::vector<double> least;  ///< per subset of `open`: the least cost
  };
  /// Per stage. Together with what was paid before, the least of them is what solve() returns.
  std::vector<Completion> completions(const remat::Prices& prices, int num_stages) const;

 private:
  enum class Kind : std::uint8_t {
    make,    ///< the first run: these are there from now on
    need,    ///< these must be there
    choose,  ///< what is there may be dropped but for these, or be made again
    pay,     ///< what is there is paid for over [begin, end); these are there in any case
    close    ///< these are of no use any more
  };
  struct Step {
    Kind kind;
    Values values = 0;
    int begin = 0;  ///< stages
    int end = 0;
  };
  struct Run {
    Values in, out;
    int deadline;
    double cost;
  };

  std::vector<int> touching_stages(const remat::StageGraph& graph,
                                   std::span<const BoundOp> ops) const;
  Values subset(std::span<const int> values) const;
  Values read_by(const remat::StageGraph& graph, int stage) const;
  Values useful_after(const remat::StageGraph& graph, int stage) const;
  void add_gap(const remat::StageGraph& graph, int before, int after);
  void add_first_run(const remat::StageGraph& graph, int stage);
  void choose(const Step& step, bool after_price, double price, SubsetTable& table) const;
  std::vector<Values> open_before_steps() const;
  void take_back(const Step& step, Values open, double price, std::vector<double>& least) const;
  void choose_back(const Step& step, Values open, std::vector<double>& least) const;
  void pay_back(Values open, Values given, double price, std::vector<double>& least) const;

  std::vector<int> values_;
  std::vector<double> bytes_;  // per value
  std::vector<Run> runs_;      // per op
  std::vector<Step> steps_;
};

}  // namespace lowtide::bounds
