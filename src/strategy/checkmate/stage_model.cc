#include "strategy/checkmate/stage_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "strategy/checkmate/stage_reach.h"

namespace lowtide::strategy::checkmate {

StageModel::Size StageModel::size(const Graph& graph, const remat::StageGraph& stages, Bytes budget,
                                  Formulation form, Pagings pagings) {
  const StageReach reach(graph, stages, budget);
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
