#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "strategy/bound/contraction.h"
#include "strategy/bound/prices.h"
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
/// touches them to the next, of those that are made and still of use: O(readers x values x
/// 2^values), and less where values are made and read one after the other.
class Cluster {
 public:
  static constexpr int kMostValues = 14;

  /// `ops` in order, with at most kMostValues outputs in all.
  Cluster(const StageGraph& graph, std::vector<BoundOp> ops);

  /// Subsets that solve() looks at.
  double work() const { return work_; }

  /// Room that solve() works in; to be used again.
  struct Scratch;

  /// The least cost of reruns and of held bytes at these prices. Appends the holds of a solution.
  double solve(const Prices& prices, Scratch& scratch, std::vector<Hold>& holds) const;

  /// Of values of the cluster: bit k is the k-th output of its ops.
  using Subset = std::uint16_t;

  /// What is left to pay from just before the reruns of a stage on.
  struct Completion {
    Subset open = 0;            ///< values that may be there and matter
    std::vector<double> least;  ///< per subset of `open`: the least cost
  };
  /// Per stage. Together with what was paid before, the least of them is what solve() returns.
  std::vector<Completion> completions(const Prices& prices, int num_stages) const;

 private:
  enum class Kind : std::uint8_t {
    make,  ///< the first run: `out` is there from now on
    run,   ///< the op may run again: makes `out` from `in`
    drop,  ///< `out` may be dropped
    pay,   ///< what is there is paid for over [begin, end); `in` is there in any case
    need   ///< `in` must be there
  };
  struct Step {
    Kind kind;
    Subset open = 0;  ///< values that may be held: subsets of these are looked at
    Subset in = 0;
    Subset out = 0;
    double cost = 0;
    int begin = 0;
    int end = 0;
  };

  /// From one touching stage to the next: indices of steps.
  struct Gap {
    int before = 0;
    int after = 0;
    std::size_t begin = 0;    ///< behind the drops of what is of no use any more
    std::size_t choices = 0;  ///< right before the first run of `after`
  };

  std::vector<int> touching_stages(const StageGraph& graph) const;
  Subset subset(std::span<const int> values) const;
  Subset useful_after(const StageGraph& graph, int stage) const;
  void add(Step step);
  void close(Subset useful);
  void add_choices(int stage);
  void add_gap(const StageGraph& graph, int before, int after);
  void add_first_run(const StageGraph& graph, int stage);
  void take(const Step& step, const Prices& prices, Scratch& scratch) const;
  void take_back(std::size_t step, const Prices& prices, std::vector<double>& least) const;
  Subset cheapest(const std::vector<double>& least) const;
  void trace_back(const Scratch& scratch, Subset state, std::vector<Hold>& holds) const;

  std::vector<BoundOp> ops_;
  std::vector<int> values_;
  std::vector<Step> steps_;
  std::vector<Gap> gaps_;
  std::vector<double> bytes_;  // per subset
  std::size_t choices_ = 0;    // steps that choose: runs and drops
  double work_ = 0;
  Subset open_ = 0;            // while the steps are laid out; then of the last
};

struct Cluster::Scratch {
  std::vector<double> least;  ///< per subset: the least cost so far
  std::vector<Subset> from;   ///< per step that chooses and subset: the subset before it
  std::size_t chosen = 0;     ///< steps so far that chose
};

}  // namespace lowtide
