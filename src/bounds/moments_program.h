#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "remat/event_plan.h"
#include "remat/stage_graph.h"
#include "solver/linear_program.h"

namespace lowtide::bounds {

/// The mixed-integer program of a plan whose memory counts at a few *moments* only: while the ops
/// of some stages first run. The moments divide the step into segments. In the segment after the
/// moment s, a value is there if
///
///     hold(s, v) = 1   it is held over the moment, for its bytes of the room there, or
///     run(s, i) = 1    its op i runs again in the segment, for the cost of i, or
///     it is there for free: made in the segment, or read or made at the moment.
///
/// The first runs of a segment need their inputs there, and so does each run(s, i). What is held
/// over a moment must be there in the segment before. So each plan in the graph's order within
/// the budget is a solution that costs no more, and the optimum is a lower bound on the cost of all
/// of them. The more moments, the higher the optimum, and the longer it takes. With a moment in
/// each stage it is the program of Checkmate with memory limited at first runs.
class MomentsProgram {
 public:
  /// `room`: per stage, PriceBound::room(). `moments`: stages, ascending, not the last one; at
  /// least one. The graph must outlive this.
  MomentsProgram(const remat::StageGraph& graph, std::span<const double> room,
                 std::vector<int> moments);

  const solver::LinearProgram& program() const { return program_; }
  /// An objective in the unit of the graph's costs: of every op once, and of the reruns.
  double cost_of(double objective) const { return objective * cost_unit_; }
  /// The plan of a solution. Reruns are as late as the solution allows. At other stages than the
  /// moments it may exceed the budget.
  std::vector<remat::Event> events_of(std::span<const double> values) const;

 private:
  struct Builder;

  int first_of(int segment) const { return moments_[segment]; }
  /// The last stage of a segment: the next moment, or the end.
  int last_of(int segment) const;
  bool is_choice(int segment, int value) const;
  bool may_rerun(int segment, int op) const;
  /// The first stage after the moment whose first run reads the value; num_stages() if none does.
  int first_reader(int segment, int value) const;
  std::size_t hold_at(int segment, int value) const;
  std::size_t run_at(int segment, int op) const;
  int hold(int segment, int value) const { return holds_[hold_at(segment, value)]; }
  int run(int segment, int op) const { return runs_[run_at(segment, op)]; }
  void add_events(int segment, std::span<const double> values,
                  std::vector<remat::Event>& events) const;

  const remat::StageGraph& graph_;
  std::vector<int> moments_;
  double cost_unit_ = 1;
  double free_below_ = 0;   // bytes; smaller values are there for free
  std::vector<int> holds_;  // at hold_at(): the column, or kNone
  std::vector<int> runs_;   // at run_at(): the same
  solver::LinearProgram program_;
};

}  // namespace lowtide::bounds
