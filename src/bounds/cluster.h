#pragma once

#include <cstdint>
#include <memory>
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
  /// A set of values of the cluster: bit k is the k-th output of its ops.
  using Values = SubsetTable::Values;

  /// Stages from one that makes or reads a value to the next. Spans follow each other.
  struct Span {
    int begin, end;
  };

  /// What the decisions depend on, apart from prices: clusters of equal layers have equal programs.
  struct Program {
    enum class Kind : std::uint8_t {
      make,    ///< a first run: these values are held from now on
      need,    ///< these values must be held
      choose,  ///< held values, except these, may be dropped, and others made again
      pay,     ///< held values, except these, are paid for over the span
      close    ///< no later step needs these values
    };
    struct Step {
      Kind kind;
      Values values = 0;
      int span = 0;
      bool operator==(const Step&) const = default;
    };
    struct Run {
      Values in, out;
      int spans;  ///< the run may happen again at the begin of the first so many
      double cost;
      bool operator==(const Run&) const = default;
    };

    std::vector<double> bytes;  ///< per value
    std::vector<Run> runs;      ///< per op
    std::vector<Step> steps;

    bool operator==(const Program&) const = default;
    /// The least cost of reruns and of held bytes, at the price of a byte over each span.
    /// `table` is working memory; its trace() has a solution, with a span as begin of each hold.
    double solve(std::span<const double> prices, SubsetTable& table) const;
  };

  /// `ops` in order, with at most kMostValues outputs in all.
  Cluster(const remat::StageGraph& graph, std::span<const BoundOp> ops);

  /// The least cost of reruns and of held bytes at these prices. Appends the holds of a solution.
  /// `table` is reusable working memory, and counts the work.
  double solve(const remat::Prices& prices, SubsetTable& table, std::vector<Hold>& holds) const;

  const std::shared_ptr<const Program>& program() const { return program_; }
  /// Lets clusters whose programs are equal share one.
  void share(std::shared_ptr<const Program> equal) { program_ = std::move(equal); }
  const std::vector<Span>& spans() const { return spans_; }
  /// Of a byte over each span.
  std::vector<double> span_prices(const remat::Prices& prices) const;

  /// The cost still to pay, from just before the reruns of a stage on.
  struct Completion {
    Values open = 0;            ///< values that may be held and matter
    std::vector<double> least;  ///< per subset of `open`: the least cost
  };
  /// Per stage. The least of earlier cost plus completion cost is the result of solve().
  std::vector<Completion> completions(const remat::Prices& prices, int num_stages) const;

 private:
  using Kind = Program::Kind;
  using Step = Program::Step;

  std::vector<int> touching_stages(const remat::StageGraph& graph,
                                   std::span<const BoundOp> ops) const;
  Values subset(std::span<const int> values) const;
  Values read_by(const remat::StageGraph& graph, int stage) const;
  Values useful_after(const remat::StageGraph& graph, int stage, const Program& program) const;
  void add_gap(const remat::StageGraph& graph, int before, int after, Program& program);
  void add_first_run(const remat::StageGraph& graph, int stage, Program& program);
  int add_span(int begin, int end);
  std::vector<Values> open_before_steps() const;
  void take_back(const Step& step, Values open, double price, std::vector<double>& least) const;
  void choose_back(const Step& step, Values open, std::vector<double>& least) const;
  void pay_back(Values open, Values given, double price, std::vector<double>& least) const;

  std::vector<int> values_;
  std::vector<Span> spans_;
  std::shared_ptr<const Program> program_;
};

}  // namespace lowtide::bounds
