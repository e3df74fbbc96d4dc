#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "remat/event_plan.h"
#include "remat/stage_graph.h"
#include "solver/linear_program.h"

namespace lowtide::strategy::checkmate {

/// How a model limits memory while ops run again, between the first runs of two ops.
enum class Formulation : std::uint8_t {
  ends,   ///< not at all, except in stages that are asked for. With none of them the optimum is
          ///< a lower bound for every plan whose first runs keep the order of the graph
  paper,  ///< as in the paper: one binary variable and one row for each possible freeing
  strong  ///< the same set of plans, with rows that make the relaxation tighter
};

/// The rules under which the optimum is a bound, as in Plan::model.
std::string_view bound_model(Formulation form);

/// What it costs to copy a value to slower memory, and to load it from there once, in the unit of
/// the graph's costs.
struct Paging {
  double out = 0;
  double in = 0;
};

/// The mixed-integer program of Jain et al. (Checkmate: Breaking the memory wall with optimal
/// tensor rematerialization, MLSys 2020) over a StageGraph:
///
///     R_t_i    the op of stage i runs in stage t (R_t_t = 1)
///     S_t_v    the value v is held over from before stage t
///     F_t_i_v  v is freed right after the op of stage i has run in stage t
///     U_t_i    memory while it runs, residents aside
///
/// Values that may be paged have more, as in Patil et al. (POET: Training neural networks on tiny
/// devices with integrated rematerialization and paging, ICML 2022):
///
///     L_t_v    the value v is loaded from slower memory at the start of stage t
///     O_v      v is copied there, when its op first runs
///
/// A copy there stays, and there is no limit of it, so that no plan needs variables for what lies
/// there, or a later copy.
///
/// Beyond the paper: values are held and freed one by one though their op runs as one; workspaces
/// and writes in place count. An op that may not run (again) in a stage has no variable there, nor
/// has anything that is useless there. Values below 10^-7 of the budget are left out, as if they
/// were always held for free: that only lowers the optimum.
///
/// Bytes are relative to the budget minus residents. Costs are in thousandths of
/// StageGraph::required_cost(), which is the offset of the objective.
class StageModel {
 public:
  /// Of a value at the start of a stage.
  struct Load {
    int stage = 0;
    int value = 0;
    auto operator<=>(const Load&) const = default;
  };
  struct Size {
    std::int64_t rows = 0;
    std::int64_t columns = 0;
  };
  /// By value; none for one that is not paged. Empty: no value is.
  using Pagings = std::span<const std::optional<Paging>>;
  /// The size that a model would have, without building it. O(edges of the graph).
  static Size size(const Graph& graph, const remat::StageGraph& stages, Bytes budget,
                   Formulation form, Pagings pagings = {});

  /// `stages` must be made from `graph` and outlive this. `inside`: for Formulation::ends, the
  /// stages whose inside the strong rows describe too; empty: none.
  StageModel(const Graph& graph, const remat::StageGraph& stages, Bytes budget, Formulation form,
             const std::vector<bool>& inside = {}, Pagings pagings = {});

  StageModel(const StageModel&) = delete;
  StageModel& operator=(const StageModel&) = delete;

  const solver::LinearProgram& program() const { return program_; }
  /// "R_5_2": stages and ops by their index in StageGraph::stages(), and so are values.
  std::string column_name(int column) const;
  /// The column of an R variable by its column_name; nothing for other text.
  std::optional<int> find_run(std::string_view name) const;

  /// The variables of a plan; feasible for the program when the plan is within the budget.
  std::vector<double> values_of(std::span<const remat::Event> events,
                                std::span<const Load> loads = {}) const;
  /// The plan that consists of the runs whose variables R are above one half.
  std::vector<remat::Event> events_of(std::span<const double> values) const;
  /// The loads whose variables L are above one half, by stage.
  std::vector<Load> loads_of(std::span<const double> values) const;
  /// The share of a value that is held over from before a stage; 1 if the model leaves it out.
  double held(std::span<const double> values, int t, int v) const;

  /// An objective in the unit of the graph's costs.
  double cost_of(double objective) const { return objective * cost_unit_; }

 private:
  struct Builder;
  enum class Kind : std::uint8_t { run, hold, load, out, free, use };
  /// Columns of one kind for consecutive stages.
  struct Series {
    Kind kind;
    int column;  ///< of the first
    int first;   ///< stage
    int last;    ///< stage; before the first when there are none
    int stage;   ///< its op runs, or after it the value is freed
    int value;
    bool has(int t) const { return first <= t && t <= last; }
    int at(int t) const { return column + t - first; }
  };

  static bool is_paged(Pagings pagings, int v) { return !pagings.empty() && pagings[v]; }
  double in_units(Bytes bytes) const { return static_cast<double>(bytes) / byte_unit_; }
  double bytes_of(int v) const { return in_units(stages_.value(v).bytes); }
  const Series& producer_runs(int v) const { return runs_[stages_.value(v).producer]; }
  bool held_over(std::span<const double> values, int t, int v) const;
  bool is_loaded(std::span<const double> values, int t, int v) const;
  void set_holds(std::span<double> values, int v) const;
  void set_frees(std::span<double> values, int v) const;
  void set_uses(std::span<double> values, int t) const;

  const remat::StageGraph& stages_;
  solver::LinearProgram program_;
  double cost_unit_ = 1;
  double byte_unit_ = 1;
  std::vector<Series> runs_;   // per stage
  std::vector<Series> holds_;  // per value
  std::vector<Series> loads_;  // per value
  std::vector<Series> outs_;   // per value: in the stage of its op
  std::vector<Series> uses_;   // per stage; empty when no stage's inside is described
  std::vector<Series> frees_;
  std::vector<std::vector<int>> frees_of_value_;  // indices into frees_, in the order of stages
  std::vector<std::vector<int>> frees_of_stage_;
  std::vector<const Series*> columns_;  // every series, in the order of columns
};

}  // namespace lowtide::strategy::checkmate
