#include "strategy/checkmate/stage_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

namespace lowtide::strategy::checkmate {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Values below this share of the budget are left out: solvers take a coefficient of their size for
/// zero.
constexpr double kTinyShare = 1e-7;

/// The objective is in this fraction of the cost common to all plans, so that the solver's absolute
/// tolerance of 1e-6 means 1e-9 of that cost.
constexpr double kCostParts = 1000;

double room_bytes(const remat::StageGraph& stages, Bytes budget) {
  return static_cast<double>(budget - stages.resident_bytes());
}

bool is_paged(StageModel::Pagings pagings, int v) { return !pagings.empty() && pagings[v]; }

/// The range of each op and value, before any variable exists.
struct Reach {
  std::vector<int> last_run;   ///< per stage: the last one in which a run of its op is useful
  std::vector<int> last_held;  ///< per value: the last stage that may use it; kNone: left out
  std::vector<std::vector<int>> touchers;     ///< per value: its producer, then its readers
  std::vector<std::vector<int>> overwritten;  ///< per stage: inputs that may be overwritten

  Reach(const Graph& graph, const remat::StageGraph& stages, Bytes budget)
      : last_run(stages.num_stages()),
        last_held(stages.num_values(), kNone),
        touchers(stages.num_values()),
        overwritten(stages.num_stages()) {
    const double tiny = kTinyShare * room_bytes(stages, budget);
    for (int i = stages.end(); i >= 0; --i) {
      last_run[i] = i;
      for (int v : stages.stage(i).outputs) {
        const remat::StageValue& value = stages.value(v);
        if (value.bytes == 0 || static_cast<double>(value.bytes) < tiny) continue;
        last_held[v] = i;
        for (int k : value.readers) last_held[v] = std::max(last_held[v], last_run[k]);
        last_run[i] = std::max(last_run[i], std::min(stages.stage(i).deadline, last_held[v]));
        touchers[v] = value.readers;
        touchers[v].insert(touchers[v].begin(), i);
      }
    }
    find_overwritten(graph, stages);
  }

  bool counts(int v) const { return last_held[v] != kNone; }
  bool may_overwrite(int i, int v) const {
    return std::ranges::find(overwritten[i], v) != overwritten[i].end();
  }
  /// The first stage in which freeing v after the op of stage i matters: at the end of its own
  /// stage only a write in place needs it.
  int first_free(int i, int v) const { return may_overwrite(i, v) ? i : i + 1; }
  int num_runs(int i) const { return last_run[i] - i + 1; }
  int num_frees(int i, int v) const { return std::max(0, last_run[i] - first_free(i, v) + 1); }

 private:
  void find_overwritten(const Graph& graph, const remat::StageGraph& stages) {
    std::vector<int> value_of(graph.num_tensors(), kNone);
    for (int v = 0; v < stages.num_values(); ++v) value_of[stages.value(v).tensor] = v;
    for (int i = 0; i < stages.end(); ++i) {
      const Op& op = graph.op(stages.stage(i).op);
      for (const InPlace& pair : op.inplace) {
        const int v = value_of[graph.storage(op.inputs[pair.input])];
        if (v == kNone || !counts(v) || may_overwrite(i, v)) continue;
        if (graph.tensor(op.outputs[pair.output]).bytes > stages.value(v).bytes) continue;
        overwritten[i].push_back(v);
      }
    }
  }
};

}  // namespace

StageModel::Size StageModel::size(const Graph& graph, const remat::StageGraph& stages, Bytes budget,
                                  Formulation form, Pagings pagings) {
  const Reach reach(graph, stages, budget);
  Size size;
  for (int i = 0; i < stages.num_stages(); ++i) {
    const bool two_rows = stages.stage(i).workspace > 0 || !reach.overwritten[i].empty();
    const std::int64_t runs = reach.num_runs(i);
    size.columns += form == Formulation::ends ? runs : 2 * runs;
    size.rows += form == Formulation::ends ? 1 : two_rows ? 2 * runs : runs;
  }
  for (int v = 0; v < stages.num_values(); ++v) {
    if (!reach.counts(v)) continue;
    const int producer = stages.value(v).producer;
    const int holds = reach.last_held[v] - producer;
    size.columns += holds;
    size.rows += form == Formulation::strong ? std::max(reach.last_run[producer] - producer, holds)
                                             : std::max(0, holds - 1);
    if (holds > 0 && is_paged(pagings, v)) {
      size.columns += holds + 1;
      size.rows += holds;
    }
    for (int i : reach.touchers[v]) {
      if (i != producer) size.rows += reach.num_runs(i);
      if (form == Formulation::ends) continue;
      size.columns += reach.num_frees(i, v);
      if (form == Formulation::paper) size.rows += reach.num_frees(i, v);
    }
  }
  return size;
}

std::string_view bound_model(Formulation form) {
  return form == Formulation::ends ? "fixed-order" : "stages";
}

struct StageModel::Builder {
  StageModel& model;
  const remat::StageGraph& stages;
  Formulation form;
  std::vector<bool> inside;  ///< per stage: limit memory while each op runs
  const Pagings pagings;
  double limit;  ///< of memory, in units
  const Reach reach;
  solver::LinearProgram& program = model.program_;

  Builder(StageModel& model, const Graph& graph, Bytes budget, Formulation form,
          std::vector<bool> asked, Pagings pagings)
      : model(model),
        stages(model.stages_),
        form(form),
        inside(std::move(asked)),
        pagings(pagings),
        reach(graph, stages, budget) {
    inside.resize(stages.num_stages());
    if (form != Formulation::ends) inside.assign(inside.size(), true);
    const double room = room_bytes(stages, budget);
    model.byte_unit_ = std::max(1.0, room);
    limit = room / model.byte_unit_;
    if (stages.required_cost() > 0) model.cost_unit_ = stages.required_cost() / kCostParts;
    program.offset = stages.required_cost() / model.cost_unit_;
  }

  void build() {
    for (int i = 0; i < stages.num_stages(); ++i) add_runs(i);
    for (int v = 0; v < stages.num_values(); ++v) add_holds(v);
    for (int v = 0; v < stages.num_values(); ++v) add_copies(v);
    model.frees_of_value_.resize(stages.num_values());
    model.frees_of_stage_.resize(stages.num_stages());
    if (std::ranges::count(inside, true) > 0) add_memory_columns();
    list_columns();
    for (int v = 0; v < stages.num_values(); ++v) {
      if (reach.counts(v)) add_value_rows(v);
    }
    for (int t = 0; t < stages.num_stages(); ++t) {
      if (form == Formulation::ends) add_end_row(t);
      if (inside[t]) add_memory_rows(t);
    }
  }

  // ---- Columns --------------------------------------------------------------------------------

  void add_runs(int i) {
    const double cost = stages.stage(i).cost / model.cost_unit_;
    model.runs_.push_back({Kind::run, program.num_columns(), i, reach.last_run[i], i, kNone});
    program.add_column(0, 1, 1, true);  // its first run, whose cost is in the offset
    for (int t = i + 1; t <= reach.last_run[i]; ++t) program.add_column(cost, 0, 1, true);
  }

  void add_holds(int v) {
    const int producer = stages.value(v).producer;
    const int last = reach.counts(v) ? reach.last_held[v] : producer;
    model.holds_.push_back({Kind::hold, program.num_columns(), producer + 1, last, kNone, v});
    for (int t = producer + 1; t <= last; ++t) program.add_column(0, 0, 1, true);
  }

  /// As often as a value may be held. Of whether it was copied out, loads leave no choice.
  void add_copies(int v) {
    const Series& holds = model.holds_[v];
    const bool paged = is_paged(pagings, v) && holds.first <= holds.last;
    const int before = holds.first - 1;
    model.loads_.push_back(
        {Kind::load, program.num_columns(), holds.first, paged ? holds.last : before, kNone, v});
    for (int t = holds.first; paged && t <= holds.last; ++t) {
      program.add_column(pagings[v]->in / model.cost_unit_, 0, 1, true);
    }
    model.outs_.push_back(
        {Kind::out, program.num_columns(), before, paged ? before : before - 1, kNone, v});
    if (paged) program.add_column(pagings[v]->out / model.cost_unit_, 0, 1, false);
  }

  /// With the strong rows, integral runs and holds never need fractional frees.
  void add_memory_columns() {
    for (int v = 0; v < stages.num_values(); ++v) {
      for (int i : reach.touchers[v]) {
        const Series series{
            Kind::free, program.num_columns(), reach.first_free(i, v), reach.last_run[i], i, v};
        model.frees_of_value_[v].push_back(static_cast<int>(model.frees_.size()));
        model.frees_of_stage_[i].push_back(static_cast<int>(model.frees_.size()));
        model.frees_.push_back(series);
        for (int t = series.first; t <= series.last; ++t) {
          program.add_column(0, 0, inside[t] ? 1 : 0, form == Formulation::paper);
        }
      }
    }
    for (int i = 0; i < stages.num_stages(); ++i) {
      double upper = limit;
      for (int v : reach.overwritten[i]) upper += model.bytes_of(v);
      const Series& runs = model.runs_[i];
      model.uses_.push_back({Kind::use, program.num_columns(), runs.first, runs.last, i, kNone});
      for (int t = runs.first; t <= runs.last; ++t) program.add_column(0, 0, upper, false);
    }
  }

  void list_columns() {
    for (const auto* list :
         {&model.runs_, &model.holds_, &model.loads_, &model.outs_, &model.frees_, &model.uses_}) {
      for (const Series& series : *list) {
        if (series.first <= series.last) model.columns_.push_back(&series);
      }
    }
    std::ranges::sort(model.columns_, {}, &Series::column);
  }

  // ---- Rows of one value ----------------------------------------------------------------------

  void add_value_rows(int v) {
    const int producer = stages.value(v).producer;
    for (int k : stages.value(v).readers) {
      for (int t = k; t <= reach.last_run[k]; ++t) add_reader_row(t, k, v);
    }
    const int last = std::max(reach.last_held[v], reach.last_run[producer]);
    for (int t = producer + 1; t <= last; ++t) {
      if (t < reach.last_held[v] || is_strong(t)) add_flow_row(t, v);
    }
    const Series& loads = model.loads_[v];
    for (int t = loads.first; t <= loads.last; ++t) add_load_row(t, v);
    if (form != Formulation::paper) return;
    for (int f : model.frees_of_value_[v]) {
      const Series& frees = model.frees_[f];
      for (int t = frees.first; t <= frees.last; ++t) add_hazard_row(t, frees);
    }
  }

  bool is_strong(int t) const { return form != Formulation::paper && inside[t]; }

  /// Subtracts the variables that make v available in stage t.
  void subtract_available(int t, int v) {
    if (model.holds_[v].has(t)) program.term(model.holds_[v].at(t), -1);
    if (model.producer_runs(v).has(t)) program.term(model.producer_runs(v).at(t), -1);
    if (model.loads_[v].has(t)) program.term(model.loads_[v].at(t), -1);
  }

  /// Only a value that was copied out is loaded.
  void add_load_row(int t, int v) {
    program.term(model.loads_[v].at(t), 1);
    program.term(model.outs_[v].column, -1);
    program.end_row(-kInfinity, 0);
  }

  void add_frees(int t, int v, int before_stage) {
    for (int f : model.frees_of_value_[v]) {
      const Series& frees = model.frees_[f];
      if (frees.stage < before_stage && frees.has(t)) program.term(frees.at(t), 1);
    }
  }

  /// Readers of v need v in memory; with the strong rows, not freed by an op before.
  void add_reader_row(int t, int k, int v) {
    program.term(model.runs_[k].at(t), 1);
    if (is_strong(t)) add_frees(t, v, k);
    subtract_available(t, v);
    program.end_row(-kInfinity, 0);
  }

  /// Values held over the end of stage t were in memory; with the strong rows, and not freed.
  void add_flow_row(int t, int v) {
    if (model.holds_[v].has(t + 1)) program.term(model.holds_[v].at(t + 1), 1);
    if (is_strong(t)) add_frees(t, v, t + 1);
    subtract_available(t, v);
    program.end_row(-kInfinity, 0);
  }

  /// A value is freed only after an op that runs, not while held over, nor before a later reader.
  /// One row for all of these, as in the paper.
  void add_hazard_row(int t, const Series& frees) {
    int hazards = 1;
    program.term(model.runs_[frees.stage].at(t), -1);
    if (model.holds_[frees.value].has(t + 1)) {
      program.term(model.holds_[frees.value].at(t + 1), 1);
      ++hazards;
    }
    for (int k : stages.value(frees.value).readers) {
      if (k <= frees.stage || !model.runs_[k].has(t)) continue;
      program.term(model.runs_[k].at(t), 1);
      ++hazards;
    }
    program.term(frees.at(t), hazards);
    program.end_row(-kInfinity, hazards - 1);
  }

  // ---- Rows of memory -------------------------------------------------------------------------

  double output_bytes(int i) const {
    double sum = 0;
    for (int v : stages.stage(i).outputs) sum += reach.counts(v) ? model.bytes_of(v) : 0;
    return sum;
  }

  /// Memory while the stage's own op runs: its inputs, outputs and workspace, and other values held
  /// over the end of the stage.
  void add_end_row(int t) {
    const remat::Stage& stage = stages.stage(t);
    double fixed = output_bytes(t) + model.in_units(stage.workspace);
    std::vector<double> held(stages.num_values());
    for (int v = 0; v < stages.num_values(); ++v) {
      const bool held_over = model.holds_[v].has(t + 1) && stages.value(v).producer < t;
      if (held_over) held[v] = model.bytes_of(v);
    }
    for (int v : stage.inputs) {
      if (!reach.counts(v)) continue;
      held[v] = 0;
      if (!reach.may_overwrite(t, v)) {
        fixed += model.bytes_of(v);
      } else if (model.holds_[v].has(t + 1)) {
        held[v] = model.bytes_of(v);
      }
    }
    for (int v = 0; v < stages.num_values(); ++v) {
      if (held[v] > 0) program.term(model.holds_[v].at(t + 1), held[v]);
    }
    program.end_row(-kInfinity, limit - fixed);
  }

  /// Memory while each op runs in stage t, from the memory of the op before.
  void add_memory_rows(int t) {
    int before = kNone;
    for (int i = 0; i <= t; ++i) {
      if (!model.runs_[i].has(t)) continue;
      add_use_row(t, i, before);
      if (stages.stage(i).workspace > 0 || !reach.overwritten[i].empty()) add_budget_row(t, i);
      before = i;
    }
  }

  void add_use_row(int t, int i, int before) {
    program.term(model.uses_[i].at(t), 1);
    if (const double made = output_bytes(i); made > 0) program.term(model.runs_[i].at(t), -made);
    if (before == kNone) {
      for (int v = 0; v < stages.num_values(); ++v) {
        if (model.holds_[v].has(t)) program.term(model.holds_[v].at(t), -model.bytes_of(v));
        if (model.loads_[v].has(t)) program.term(model.loads_[v].at(t), -model.bytes_of(v));
      }
    } else {
      program.term(model.uses_[before].at(t), -1);
      for (int f : model.frees_of_stage_[before]) {
        const Series& frees = model.frees_[f];
        if (frees.has(t)) program.term(frees.at(t), model.bytes_of(frees.value));
      }
    }
    program.end_row(0, 0);
  }

  void add_budget_row(int t, int i) {
    const double workspace = model.in_units(stages.stage(i).workspace);
    program.term(model.uses_[i].at(t), 1);
    if (workspace > 0) program.term(model.runs_[i].at(t), workspace);
    for (int f : model.frees_of_stage_[i]) {
      const Series& frees = model.frees_[f];
      const bool overwrites = frees.has(t) && reach.may_overwrite(i, frees.value);
      if (overwrites) program.term(frees.at(t), -model.bytes_of(frees.value));
    }
    program.end_row(-kInfinity, limit);
  }
};

StageModel::StageModel(const Graph& graph, const remat::StageGraph& stages, Bytes budget,
                       Formulation form, const std::vector<bool>& inside, Pagings pagings)
    : stages_(stages) {
  Builder(*this, graph, budget, form, inside, pagings).build();
}

std::string StageModel::column_name(int column) const {
  const auto behind = std::ranges::upper_bound(columns_, column, {}, &Series::column);
  const Series& series = **(behind - 1);
  const int t = series.first + column - series.column;
  switch (series.kind) {
    case Kind::run: return fmt::format("R_{}_{}", t, series.stage);
    case Kind::hold: return fmt::format("S_{}_{}", t, series.value);
    case Kind::load: return fmt::format("L_{}_{}", t, series.value);
    case Kind::out: return fmt::format("O_{}", series.value);
    case Kind::free: return fmt::format("F_{}_{}_{}", t, series.stage, series.value);
    case Kind::use: return fmt::format("U_{}_{}", t, series.stage);
  }
  return {};
}

std::optional<int> StageModel::find_run(std::string_view name) const {
  if (!name.starts_with("R_")) return std::nullopt;
  const char* const end = name.data() + name.size();
  int t = 0;
  int i = 0;
  const auto first = std::from_chars(name.data() + 2, end, t);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != '_') return std::nullopt;
  const auto second = std::from_chars(first.ptr + 1, end, i);
  if (second.ec != std::errc() || second.ptr != end) return std::nullopt;
  if (i < 0 || i >= stages_.num_stages() || !runs_[i].has(t)) return std::nullopt;
  return runs_[i].at(t);
}

// ---- Values of a plan --------------------------------------------------------------------------

std::vector<double> StageModel::values_of(std::span<const remat::Event> events,
                                          std::span<const Load> loads) const {
  std::vector<double> values(program_.num_columns());
  for (const Series& runs : runs_) values[runs.column] = 1;
  for (const auto& [t, i] : events) {
    if (runs_[i].has(t)) values[runs_[i].at(t)] = 1;
  }
  for (const auto& [t, v] : loads) {
    if (loads_[v].has(t)) values[loads_[v].at(t)] = values[outs_[v].column] = 1;
  }
  for (int v = 0; v < stages_.num_values(); ++v) set_holds(values, v);
  for (int v = 0; v < stages_.num_values(); ++v) set_frees(values, v);
  for (int t = 0; !uses_.empty() && t < stages_.num_stages(); ++t) set_uses(values, t);
  return values;
}

bool StageModel::held_over(std::span<const double> values, int t, int v) const {
  return holds_[v].has(t) && values[holds_[v].at(t)] > 0.5;
}

bool StageModel::is_loaded(std::span<const double> values, int t, int v) const {
  return loads_[v].has(t) && values[loads_[v].at(t)] > 0.5;
}

/// A value is held from before a stage if it is not had again in it, and read in it or later.
void StageModel::set_holds(std::span<double> values, int v) const {
  const auto runs_in = [&](int i, int t) {
    return runs_[i].has(t) && values[runs_[i].at(t)] > 0.5;
  };
  const remat::StageValue& value = stages_.value(v);
  for (int t = holds_[v].last; t >= holds_[v].first; --t) {
    const bool read = std::ranges::any_of(value.readers, [&](int k) { return runs_in(k, t); });
    const bool needed = read || held_over(values, t + 1, v);
    const bool again = runs_in(value.producer, t) || is_loaded(values, t, v);
    values[holds_[v].at(t)] = needed && !again;
  }
}

/// A value is freed after the last op of a stage that touches it, unless held over its end.
void StageModel::set_frees(std::span<double> values, int v) const {
  std::vector<const Series*> last(stages_.num_stages());
  for (int f : frees_of_value_[v]) {
    const Series& runs = runs_[frees_[f].stage];
    for (int t = runs.first; t <= runs.last; ++t) {
      if (values[runs.at(t)] > 0.5) last[t] = &frees_[f];
    }
  }
  for (int t = 0; t < stages_.num_stages(); ++t) {
    const bool frees = last[t] != nullptr && last[t]->has(t) && !held_over(values, t + 1, v);
    if (frees) values[last[t]->at(t)] = 1;
  }
}

void StageModel::set_uses(std::span<double> values, int t) const {
  double live = 0;
  for (int v = 0; v < stages_.num_values(); ++v) {
    const bool there = held_over(values, t, v) || is_loaded(values, t, v);
    live += there ? bytes_of(v) : 0;
  }
  for (int i = 0; i <= t; ++i) {
    if (!runs_[i].has(t)) continue;
    const double ran = values[runs_[i].at(t)];
    for (int v : stages_.stage(i).outputs) {
      if (!frees_of_value_[v].empty()) live += ran * bytes_of(v);
    }
    values[uses_[i].at(t)] = live;
    for (int f : frees_of_stage_[i]) {
      const Series& frees = frees_[f];
      if (frees.has(t)) live -= values[frees.at(t)] * bytes_of(frees.value);
    }
  }
}

std::vector<remat::Event> StageModel::events_of(std::span<const double> values) const {
  std::vector<remat::Event> events;
  for (const Series& runs : runs_) {
    for (int t = runs.first + 1; t <= runs.last; ++t) {
      if (values[runs.at(t)] > 0.5) events.push_back({t, runs.stage});
    }
  }
  return events;
}

std::vector<StageModel::Load> StageModel::loads_of(std::span<const double> values) const {
  std::vector<Load> found;
  for (const Series& loads : loads_) {
    for (int t = loads.first; t <= loads.last; ++t) {
      if (values[loads.at(t)] > 0.5) found.push_back({t, loads.value});
    }
  }
  std::ranges::sort(found);
  return found;
}

double StageModel::held(std::span<const double> values, int t, int v) const {
  return holds_[v].has(t) ? values[holds_[v].at(t)] : 1;
}

}  // namespace lowtide::strategy::checkmate
