#include <algorithm>
#include <limits>

#include "strategy/checkmate/stage_model.h"
#include "strategy/checkmate/stage_reach.h"

namespace lowtide::strategy::checkmate {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The objective is in this fraction of the cost common to all plans, so that the solver's absolute
/// tolerance of 1e-6 means 1e-9 of that cost.
constexpr double kCostParts = 1000;

}  // namespace

/// Writes the columns and rows of a model.
struct StageModel::Builder {
  StageModel& model;
  const remat::StageGraph& stages;
  Formulation form;
  std::vector<bool> inside;  ///< per stage: limit memory while each op runs
  const Pagings pagings;
  double limit;  ///< of memory, in units
  const StageReach reach;
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

}  // namespace lowtide::strategy::checkmate
