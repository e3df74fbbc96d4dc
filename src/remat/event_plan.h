#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "remat/prices.h"
#include "remat/stage_graph.h"
#include "remat/timeline.h"

namespace lowtide::remat {

/// The op of stage `op` runs again in stage `stage`.
struct Event {
  int stage = 0;
  int op = 0;
  bool operator==(const Event&) const = default;
  auto operator<=>(const Event&) const = default;
};

/// A plan as a set of events (remat/stage_graph.h). Its cost and its memory in every stage are kept
/// up to date while single events are added and removed. Memory is exact: the peak is that of the
/// lowered plan with its writes in place (plan/in_place.h). The memory of runs inside a stage is
/// computed when memory is asked for.
class EventPlan {
 public:
  EventPlan(const StageGraph& graph, Bytes limit);
  /// Tracks held_price() at these prices instead of memory(), which must not be called then. So
  /// adding an event takes no longer where values are held over many stages.
  EventPlan(const StageGraph& graph, const Prices& prices);

  /// add(): the event must be allowed (StageGraph::may_rerun) and absent. remove(): present.
  void add(Event event);
  void remove(Event event);
  bool contains(Event event) const;

  /// The price of the memory in use, summed over the stages.
  double held_price() const {
    settle();
    return held_price_;
  }

  /// Of every needed op once, and of reruns; not of views that a rerun may run again.
  double cost() const { return cost_; }
  const Timeline& memory() const {
    settle();
    return memory_;
  }
  void set_limit(Bytes limit) { memory_.set_limit(limit); }
  bool fits() const { return memory().stages_over() == 0; }

  /// In no particular order: it depends on earlier additions and removals.
  const std::vector<Event>& events() const { return events_; }
  /// The stages in which an op runs, ascending: its own first.
  const std::vector<int>& runs(int op) const { return runs_[op]; }
  /// The ops that run again in the stage, ascending.
  const std::vector<int>& reruns_in(int stage) const { return stage_events_[stage]; }
  /// The last stage that reads the output of the k-th run of the value's producer; the stage of
  /// that run when nothing reads it.
  int last_stage(int value, int k) const { return stage_of(last_use_[value][k]); }
  /// Whether no run reads an output of the event.
  bool is_useless(Event event) const;
  /// Whether the op's run in that stage is the reason to hold the input since an earlier stage: it
  /// is the last reader of a value that another stage's run made.
  bool stretches(Event run, int input) const;
  /// The first stage from `from` on in which a run reads that instance; -1 when none does.
  int next_use(int value, int k, int from) const;
  /// The run of the value's producer that a use in `stage` reads.
  int instance_at(int value, int stage) const;

  /// Work of these updates since the last call of take_work(), in nanoseconds on the machine that
  /// Control counts on.
  double take_work();

 private:
  EventPlan(const StageGraph& graph, Timeline memory, const Prices* prices);

  /// A point in the order of execution: by stage, then by op.
  using Moment = std::int64_t;
  static Moment moment(int stage, int op) { return (Moment{stage} << 32) | op; }
  static int stage_of(Moment moment) { return static_cast<int>(moment >> 32); }

  Moment last_use_before(int value, int run_stage, int before_stage) const;
  bool is_last_use(int value, Moment now) const;
  void split_outputs(Event event, int k);
  void join_outputs(Event event, int k);
  void read_inputs(Event event);
  void unread_inputs(Event event);
  void hold(int begin, int end, Bytes bytes) const;
  void touch(int stage);
  void settle() const;
  Bytes top_of(int stage) const;
  Bytes overlaid(int stage, int op) const;
  void step(int stage, int op, Bytes& live, Bytes& top) const;

  const StageGraph& graph_;
  const Prices* prices_;  // tracked instead of memory; may be null
  double cost_;
  mutable double held_price_ = 0;
  std::vector<std::vector<int>> runs_;          // per op
  std::vector<std::vector<int>> slots_;         // per op and run: index into events_; -1 for first
  std::vector<std::vector<Moment>> last_use_;   // per value and run of its producer
  std::vector<std::vector<int>> stage_events_;  // per stage: ops, ascending
  std::vector<Event> events_;
  std::vector<Bytes> own_top_;      // per stage: bytes that its op makes and works in
  mutable std::vector<Bytes> top_;  // per stage: its highest use above what is live at its start
  mutable std::vector<int> touched_;
  mutable std::vector<char> is_touched_;
  mutable std::int64_t steps_ = 0;  // over the readers and runs of values
  double taken_work_ = 0;
  mutable Timeline memory_;  // per stage: the highest use in it
};

/// Makes `events` the plan's events: adds and removes the difference.
void change_to(EventPlan& plan, std::vector<Event> events);

/// Of all ops once, and of these reruns.
double cost_of(const StageGraph& graph, std::span<const Event> events);
/// The ops in the order in which they run, with these reruns.
std::vector<OpId> executions_of(const StageGraph& graph, std::span<const Event> events);
/// The reruns of such an order, ascending; an op counts once per stage.
std::vector<Event> events_of(const StageGraph& graph, std::span<const OpId> executions);

}  // namespace lowtide::remat
