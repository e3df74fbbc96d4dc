#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bounds/contraction.h"
#include "bounds/subset_table.h"
#include "remat/prices.h"
#include "remat/stage_graph.h"

namespace lowtide::bounds {

/// The value is held during the first runs of the stages [begin, end).
struct Hold {
  int value;
  int begin, end;
  bool free;  ///< the stage reads or makes the value, so its memory is part of the stage's own need
};

/// A few neighbouring ops. For their outputs it decides exactly, at given prices and for every
/// stage that reads one of them, whether to hold the output or to make it again. Values made
/// elsewhere exist for free, and memory inside a stage does not count; both only lower the
/// result.
///
/// The program runs over the subsets of the cluster's values that are held, from each stage that
/// touches them to the next (bounds/subset_table.h). All values are held over stages without a
/// price. So the time depends on the number of stages with a price and of values dropped over them.
class Cluster {
 public:
  static constexpr int kMostValues = SubsetTable::kMostValues;

  /// `ops` in order, with at most kMostValues outputs in all.
  Cluster(const remat::StageGraph& graph, std::span<const BoundOp> ops);

  /// Working memory of solve(), for reuse.
  struct Scratch;

  /// The least cost of reruns and of held bytes at these prices. Appends the holds of a solution.
  /// `table` is reusable working memory, and counts the work.
  double solve(const remat::Prices& prices, SubsetTable& table, std::vector<Hold>& holds) const;

  /// A set of values of the cluster: bit k is the k-th output of its ops.
  using Values = SubsetTable::Values;

  /// The cost still to pay, from just before the reruns of a stage on.
  struct Completion {
    Values open = 0;            ///< values that may be held and matter
    std::vector<double> least;  ///< per subset of `open`: the least cost
  };
  /// Per stage. The least of earlier cost plus completion cost is the result of solve().
  std::vector<Completion> completions(const remat::Prices& prices, int num_stages) const;

 private:
  enum class Kind : std::uint8_t {
    make,    ///< a first run: these values are held from now on
    need,    ///< these values must be held
    choose,  ///< held values, except these, may be dropped, and others made again
    pay,     ///< held values, except these, are paid for over [begin, end)
    close    ///< no later step needs these values
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
