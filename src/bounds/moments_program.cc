#include "bounds/moments_program.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace lowtide::bounds {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

/// Costs are in thousandths of the cost of every op once, so that tolerances of a solver matter
/// little.
constexpr double kCostUnits = 1000;

/// Values below this share of the largest room are there for free.
constexpr double kTiny = 1e-7;

}  // namespace

/// Adds variables when something needs them.
struct MomentsProgram::Builder {
  /// A hold or a run whose own needs have no rows yet.
  struct Open {
    int segment;
    bool is_run;
    int index;
    int column;
  };

  Builder(MomentsProgram& whole, std::span<const double> room)
      : whole(whole), program(whole.program_), room(room) {}

  void build() {
    program.offset = kCostUnits;
    for (int s = 0; s < num_segments(); ++s) need_by_first_runs(s);
    while (!open.empty()) {
      const Open next = open.back();
      open.pop_back();
      next.is_run ? need_inputs(next) : need_before(next);
    }
    for (int s = 0; s < num_segments(); ++s) limit_memory(s);
  }

 private:
  int num_segments() const { return static_cast<int>(whole.moments_.size()); }

  /// By readers, as along a chain (bounds/any_order.h) some first runs read nothing.
  void need_by_first_runs(int segment) {
    for (int v = 0; v < whole.graph_.num_values(); ++v) {
      if (whole.first_reader(segment, v) <= whole.last_of(segment)) need(segment, v, kNone);
    }
  }

  void need_inputs(const Open& rerun) {
    for (int v : whole.graph_.stage(rerun.index).inputs) need(rerun.segment, v, rerun.column);
  }

  void need_before(const Open& held) {
    if (held.segment > 0) need(held.segment - 1, held.index, held.column);
  }

  /// hold + run >= the variable in the column `by`, or 1 if there is none.
  void need(int segment, int value, int by) {
    if (!whole.is_choice(segment, value)) return;
    const int producer = whole.graph_.value(value).producer;
    program.term(hold(segment, value), 1);
    if (whole.may_rerun(segment, producer)) program.term(run(segment, producer), 1);
    if (by != kNone) program.term(by, -1);
    program.end_row(by == kNone ? 1 : 0, kInfinite);
  }

  int hold(int segment, int value) {
    int& column = whole.holds_[whole.hold_at(segment, value)];
    if (column == kNone) {
      column = program.add_column(0, 0, 1, true);
      open.push_back({segment, false, value, column});
    }
    return column;
  }

  int run(int segment, int op) {
    int& column = whole.runs_[whole.run_at(segment, op)];
    if (column == kNone) {
      column = program.add_column(whole.graph_.stage(op).cost / whole.cost_unit_, 0, 1, true);
      open.push_back({segment, true, op, column});
    }
    return column;
  }

  void limit_memory(int segment) {
    const double unit = std::max(1.0, *std::ranges::max_element(room));
    for (int v = 0; v < whole.graph_.num_values(); ++v) {
      const int column = whole.hold(segment, v);
      const auto bytes = static_cast<double>(whole.graph_.value(v).bytes);
      if (column != kNone) program.term(column, bytes / unit);
    }
    program.end_row(-kInfinite, room[whole.first_of(segment)] / unit);
  }

  MomentsProgram& whole;
  solver::LinearProgram& program;
  std::span<const double> room;
  std::vector<Open> open;
};

MomentsProgram::MomentsProgram(const remat::StageGraph& graph, std::span<const double> room,
                               std::vector<int> moments)
    : graph_(graph),
      moments_(std::move(moments)),
      cost_unit_(graph.required_cost() / kCostUnits),
      free_below_(kTiny * *std::ranges::max_element(room)),
      holds_(moments_.size() * graph.num_values(), kNone),
      runs_(moments_.size() * graph.num_stages(), kNone) {
  Builder(*this, room).build();
}

int MomentsProgram::last_of(int segment) const {
  const auto next = static_cast<std::size_t>(segment) + 1;
  return next < moments_.size() ? moments_[next] : graph_.end();
}

/// Others are there for free, or every plan holds them until their last reader, which the room does
/// without.
bool MomentsProgram::is_choice(int segment, int v) const {
  const remat::StageValue& value = graph_.value(v);
  return value.producer < first_of(segment) &&
         graph_.stage(value.producer).latest > value.producer &&
         static_cast<double>(value.bytes) >= free_below_ &&
         !std::ranges::binary_search(value.readers, first_of(segment));
}

int MomentsProgram::first_reader(int segment, int v) const {
  const std::vector<int>& readers = graph_.value(v).readers;
  const auto next = std::ranges::upper_bound(readers, first_of(segment));
  return next == readers.end() ? graph_.num_stages() : *next;
}

bool MomentsProgram::may_rerun(int segment, int op) const {
  return graph_.stage(op).latest > first_of(segment);
}

std::size_t MomentsProgram::hold_at(int segment, int value) const {
  return static_cast<std::size_t>(segment) * graph_.num_values() + value;
}

std::size_t MomentsProgram::run_at(int segment, int op) const {
  return static_cast<std::size_t>(segment) * graph_.num_stages() + op;
}

std::vector<remat::Event> MomentsProgram::events_of(std::span<const double> values) const {
  std::vector<remat::Event> events;
  for (int s = 0; s < static_cast<int>(moments_.size()); ++s) add_events(s, values, events);
  return events;
}

/// What reads a rerun's results comes after its op, so its stage is known first.
void MomentsProgram::add_events(int segment, std::span<const double> values,
                                std::vector<remat::Event>& events) const {
  const auto is_set = [&](int column) { return column != kNone && values[column] > 0.5; };
  const bool has_next = static_cast<std::size_t>(segment) + 1 < moments_.size();
  std::vector<int> needed_at(graph_.num_values());
  for (int v = 0; v < graph_.num_values(); ++v) {
    const bool is_held_on = has_next && is_set(hold(segment + 1, v));
    const int latest = is_held_on ? last_of(segment) : graph_.num_stages();
    needed_at[v] = std::min(first_reader(segment, v), latest);
  }
  for (int i = first_of(segment); i >= 0; --i) {
    if (!is_set(run(segment, i))) continue;
    int stage = graph_.num_stages();
    for (int v : graph_.stage(i).outputs) {
      const bool is_there = !is_choice(segment, v) || is_set(hold(segment, v));
      if (!is_there) stage = std::min(stage, needed_at[v]);
    }
    if (!graph_.may_rerun(i, stage)) continue;
    for (int v : graph_.stage(i).inputs) needed_at[v] = std::min(needed_at[v], stage);
    events.push_back({stage, i});
  }
}

}  // namespace lowtide::bounds
