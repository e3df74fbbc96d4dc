#include "report/placement_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "report/table.h"

namespace lowtide::report {
namespace {

using parallel::ChosenPlan;
using parallel::Cluster;
using parallel::FoundPlacements;
using parallel::Placement;
using parallel::PlacementReport;
using parallel::RankReport;

/// The most columns of the table of memory.
constexpr std::size_t kMostMemoryColumns = 6;

std::string seconds_text(double seconds) {
  if (seconds >= 1) return fmt::format("{:.2f} s", seconds);
  return fmt::format("{:.3g} ms", seconds * 1e3);
}

std::string percent_text(double share) { return fmt::format("{:.1f}%", 100 * share); }

std::string units_text(const std::vector<parallel::UnitRange>& units) {
  std::vector<std::string> texts;
  for (const parallel::UnitRange& range : units) {
    texts.push_back(range.first == range.last ? fmt::format("{}", range.first)
                                              : fmt::format("{}-{}", range.first, range.last));
  }
  if (texts.size() > 3) {
    return fmt::format("{}, ... {} ({} chunks)", texts[0], texts.back(), texts.size());
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string ranks_text(const RankReport& ranks) {
  return fmt::format("{}-{}", ranks.first_rank, ranks.first_rank + ranks.ranks - 1);
}

std::string headline_of(const parallel::LayeredModel& model, const Cluster& cluster,
                        const FoundPlacements& found) {
  const PlacementReport& best = found.best.front();
  const char* no_update =
      model.state.optimizer == 0 ? " (no state of an optimizer: the step has none)" : "";
  return fmt::format(
      "{} on {} devices, {} in a node: {} units, {} of state{}\n\n{}\n"
      "step {}, {} of the devices' peak (model FLOP utilisation), at most {} on a device\n",
      model.name, cluster.ranks(), cluster.devices_per_node, model.sequence.size(),
      format_bytes(model.state.all()), no_update, describe(best.placement),
      seconds_text(best.step_seconds), percent_text(best.flop_utilisation),
      format_bytes(best.most_memory_bytes));
}

std::string ranks_table(const PlacementReport& best, std::size_t columns) {
  Table table({"stage", "ranks", "units", "in flight", "memory", "of", "compute", "reruns",
               "communication", "update", "waiting"});
  for (const RankReport& ranks : best.ranks) {
    table.add({fmt::format("{}", ranks.stage), ranks_text(ranks), units_text(ranks.units),
               fmt::format("{}", ranks.in_flight), format_bytes(ranks.memory_bytes),
               format_bytes(ranks.available_bytes), seconds_text(ranks.compute_seconds),
               seconds_text(ranks.rerun_seconds), seconds_text(ranks.communication_seconds),
               seconds_text(ranks.update_seconds), seconds_text(ranks.waiting_seconds)});
  }
  return table.text(columns);
}

/// All groups of ranks, or of many the first ones and the last.
std::vector<const RankReport*> shown_ranks(const PlacementReport& best) {
  std::vector<const RankReport*> shown;
  for (const RankReport& ranks : best.ranks) {
    if (shown.size() + 1 < kMostMemoryColumns) shown.push_back(&ranks);
  }
  if (shown.size() < best.ranks.size()) shown.push_back(&best.ranks.back());
  return shown;
}

std::string memory_table(const PlacementReport& best, std::size_t columns) {
  const std::vector<const RankReport*> shown = shown_ranks(best);
  std::vector<std::string> header{"memory of a rank"};
  std::vector<std::string> names;
  for (const RankReport* ranks : shown) {
    header.push_back(fmt::format("stage {}", ranks->stage));
    for (const estimate::Part& part : ranks->memory) {
      if (std::ranges::find(names, part.name) == names.end()) names.push_back(part.name);
    }
  }
  Table table(header);
  for (const std::string& name : names) {
    std::vector<std::string> row{name};
    for (const RankReport* ranks : shown) {
      const Bytes bytes = estimate::bytes_of(ranks->memory, name);
      row.push_back(bytes > 0 ? format_bytes(bytes) : "-");
    }
    table.add(row);
  }
  std::vector<std::string> total{"all"};
  for (const RankReport* ranks : shown) total.push_back(format_bytes(ranks->memory_bytes));
  table.add(total);
  return table.text(columns);
}

std::string plan_text(const ChosenPlan& chosen, const std::vector<std::string>& kinds) {
  const std::string& kind = kinds[static_cast<std::size_t>(chosen.kind)];
  const std::string again = chosen.plan.reruns.empty()
                                ? "nothing runs again"
                                : fmt::format("run again: {}", fmt::join(chosen.plan.reruns, ", "));
  return fmt::format("  {} x {}, {} kept of each micro-batch; {}\n", chosen.units, kind,
                     format_bytes(chosen.plan.held_bytes), again);
}

std::string plans_text(const PlacementReport& best, const std::vector<std::string>& kinds) {
  std::string text;
  std::string last;
  for (const RankReport& ranks : best.ranks) {
    std::string own;
    for (const ChosenPlan& chosen : ranks.plans) own += plan_text(chosen, kinds);
    text += fmt::format("stage {}:{}\n", ranks.stage, own == last ? " the same" : "");
    if (own != last) text += own;
    last = std::move(own);
  }
  return text;
}

std::string others_table(const FoundPlacements& found, std::size_t columns) {
  if (found.best.size() < 2) return "";
  Table table({"other widths", "step", "utilisation", "memory"});
  for (std::size_t i = 1; i < found.best.size(); ++i) {
    const PlacementReport& other = found.best[i];
    table.add({describe(other.placement), seconds_text(other.step_seconds),
               percent_text(other.flop_utilisation), format_bytes(other.most_memory_bytes)});
  }
  return "\n" + table.text(columns);
}

std::string misfits_table(const FoundPlacements& found, std::size_t columns) {
  if (found.misfits.empty()) return "";
  Table table({"widths that do not fit", "memory that would do"});
  for (const parallel::Misfit& misfit : found.misfits) {
    table.add({describe(misfit.placement), format_bytes(misfit.smallest_memory_bytes)});
  }
  return "\n" + table.text(columns);
}

std::string bounds_text(const FoundPlacements& found) {
  const double step = found.best.front().step_seconds;
  std::string text = fmt::format(
      "\n{} placements considered, {} of them solved; no other can be among these.\n"
      "No placement takes less than {} (this one: {} more); the arithmetic alone takes {}.\n"
      "The state alone takes {} of each device when all divide it.\n",
      found.considered, found.solved, seconds_text(found.least_seconds),
      percent_text(step / found.least_seconds - 1), seconds_text(found.arithmetic_seconds),
      format_bytes(found.least_state_bytes));
  if (!found.complete) text += "Stopped: others may be faster.\n";
  return text;
}

nlohmann::ordered_json placement_json(const Placement& placement) {
  return {{"data", placement.data},
          {"tensor", placement.tensor},
          {"sequence_parallel", placement.sequence_parallel},
          {"pipeline", placement.pipeline.stages},
          {"schedule", name(placement.pipeline.schedule)},
          {"chunks", placement.pipeline.chunks},
          {"micro_batch", placement.micro_batch},
          {"micro_batches", placement.pipeline.micro_batches},
          {"zero", placement.sharding.stage},
          {"zero_within_node", placement.sharding.within_node}};
}

nlohmann::ordered_json ranks_json(const RankReport& ranks, const std::vector<std::string>& kinds) {
  auto units = nlohmann::ordered_json::array();
  for (const parallel::UnitRange& range : ranks.units) units.push_back({range.first, range.last});
  auto memory = nlohmann::ordered_json::object();
  for (const estimate::Part& part : ranks.memory) memory[part.name] = part.bytes;
  auto plans = nlohmann::ordered_json::array();
  for (const ChosenPlan& chosen : ranks.plans) {
    plans.push_back({{"unit", kinds[static_cast<std::size_t>(chosen.kind)]},
                     {"count", chosen.units},
                     {"kept_bytes", chosen.plan.held_bytes},
                     {"working_bytes", chosen.plan.working_bytes},
                     {"forward_seconds", chosen.plan.forward_seconds},
                     {"backward_seconds", chosen.plan.backward_seconds},
                     {"reruns", chosen.plan.reruns}});
  }
  return {{"stage", ranks.stage},
          {"first_rank", ranks.first_rank},
          {"ranks", ranks.ranks},
          {"node_kind", ranks.node_kind},
          {"units", units},
          {"in_flight", ranks.in_flight},
          {"memory_bytes", ranks.memory_bytes},
          {"available_bytes", ranks.available_bytes},
          {"memory", memory},
          {"compute_seconds", ranks.compute_seconds},
          {"rerun_seconds", ranks.rerun_seconds},
          {"communication_seconds", ranks.communication_seconds},
          {"update_seconds", ranks.update_seconds},
          {"waiting_seconds", ranks.waiting_seconds},
          {"plans", plans}};
}

nlohmann::ordered_json report_json(const PlacementReport& report,
                                   const std::vector<std::string>& kinds) {
  nlohmann::ordered_json json = placement_json(report.placement);
  json["step_seconds"] = report.step_seconds;
  json["flop_utilisation"] = report.flop_utilisation;
  json["most_memory_bytes"] = report.most_memory_bytes;
  auto stages = nlohmann::ordered_json::array();
  for (const RankReport& ranks : report.ranks) stages.push_back(ranks_json(ranks, kinds));
  json["stages"] = std::move(stages);
  return json;
}

}  // namespace

std::string format_placements(const parallel::LayeredModel& model, const Cluster& cluster,
                              const FoundPlacements& found, std::size_t columns) {
  const PlacementReport& best = found.best.front();
  return fmt::format("{}\n{}\n{}\n{}{}{}{}", headline_of(model, cluster, found),
                     ranks_table(best, columns), memory_table(best, columns),
                     plans_text(best, model.kinds), others_table(found, columns),
                     misfits_table(found, columns), bounds_text(found));
}

nlohmann::ordered_json placements_json(const parallel::LayeredModel& model, const Cluster& cluster,
                                       const FoundPlacements& found) {
  auto others = nlohmann::ordered_json::array();
  for (std::size_t i = 1; i < found.best.size(); ++i) {
    others.push_back(report_json(found.best[i], model.kinds));
  }
  auto misfits = nlohmann::ordered_json::array();
  for (const parallel::Misfit& misfit : found.misfits) {
    nlohmann::ordered_json json = placement_json(misfit.placement);
    json["smallest_memory_bytes"] = misfit.smallest_memory_bytes;
    misfits.push_back(std::move(json));
  }
  return {{"model", model.name},
          {"ranks", cluster.ranks()},
          {"units", model.sequence.size()},
          {"state_bytes", model.state.all()},
          {"best", report_json(found.best.front(), model.kinds)},
          {"others", std::move(others)},
          {"misfits", std::move(misfits)},
          {"considered", found.considered},
          {"solved", found.solved},
          {"status", found.complete ? "complete" : "stopped"},
          {"least_seconds", found.least_seconds},
          {"arithmetic_seconds", found.arithmetic_seconds},
          {"least_state_bytes", found.least_state_bytes}};
}

}  // namespace lowtide::report
