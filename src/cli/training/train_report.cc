#include "cli/training/train_report.h"

#include <fmt/format.h>

#include "cli/memory_row.h"
#include "cli/or_null.h"
#include "cli/output.h"
#include "report/table.h"

namespace lowtide::cli {
namespace {

const char* status(const train::TrainResult& result) {
  if (!result.save_error.empty()) return "failed";
  return result.stopped ? "stopped" : "complete";
}

void add_check(const train::TrainResult& result, nlohmann::json& j) {
  if (!result.keep_all_step_seconds) return;
  j["keep_all_step_seconds"] = *result.keep_all_step_seconds;
  j["keep_all_measured_peak_bytes"] = *result.keep_all_measured_peak_bytes;
  add_comparison(result, j);
}

std::string loss_text(const train::TrainResult& result) {
  return fmt::format("{:.6f} -> {:.6f}", result.losses.front(), result.losses.back());
}

}  // namespace

void add_comparison(const train::TrainResult& result, nlohmann::json& j) {
  if (!result.bit_identical) return;  // stopped before the runs could be compared
  j["bit_identical"] = *result.bit_identical;
  if (!*result.bit_identical) j["first_difference"] = result.first_difference;
}

std::string describe_comparison(const train::TrainResult& result) {
  if (!result.bit_identical) return "stopped before the runs could be compared";
  if (*result.bit_identical) return "bit-identical to keep-all";
  return "differs from keep-all, first in " + result.first_difference;
}

nlohmann::json to_json(const train::TrainResult& r) {
  nlohmann::json j = {{"status", status(r)},
                      {"first_step", r.first_step},
                      {"steps_done", r.first_step + static_cast<std::int64_t>(r.losses.size())},
                      {"losses", r.losses},
                      {"micro_batches", r.micro_batches},
                      {"slices", r.slices},
                      {"strategy", r.strategy},
                      {"plan_status", strategy::name(r.outcome)},
                      {"budget_bytes", r.budget_bytes},
                      {"planned_peak_bytes", r.planned_peak_bytes},
                      {"arena_bytes", r.arena_bytes},
                      {"measured_peak_bytes", r.measured_peak_bytes},
                      {"keep_all_peak_bytes", r.keep_all_peak_bytes},
                      {"outside_bytes", r.outside_bytes},
                      {"allocations", r.allocations},
                      {"overruns", r.overruns},
                      {"bytes_out", r.bytes_out},
                      {"bytes_in", r.bytes_in},
                      {"wait_seconds", r.wait_seconds},
                      {"overhead", r.overhead},
                      {"lower_bound_seconds", or_null(r.lower_bound_seconds)},
                      {"gap", or_null(r.gap)},
                      {"planning_seconds", r.planning_seconds},
                      {"seconds_of_steps", r.seconds_of_steps},
                      {"step_seconds", r.step_seconds},
                      {"predicted_step_seconds", r.predicted_step_seconds},
                      {"items", r.items},
                      {"items_per_second", r.items_per_second},
                      {"process_before_bytes", r.process_before_bytes},
                      {"process_peak_bytes", r.process_peak_bytes}};
  if (r.loss_scale) {
    j["loss_scale"] = *r.loss_scale;
    j["skipped_steps"] = r.skipped_steps;
  }
  if (!r.save_error.empty()) j["error"] = r.save_error;
  add_check(r, j);
  return j;
}

std::string describe(const train::TrainResult& r) {
  const std::int64_t done = r.first_step + static_cast<std::int64_t>(r.losses.size());
  if (r.losses.empty() && !r.stopped) {
    return fmt::format("all {} steps are done already; --steps N continues to N.\n", done);
  }
  report::Table table({"steps done", fmt::format("{} ({})", done, status(r))},
                      report::Table::Align::left);
  if (!r.losses.empty()) table.add({"loss", loss_text(r)});
  if (r.micro_batches > 1) table.add({"micro-batches", std::to_string(r.micro_batches)});
  if (r.slices > 1) table.add({"slices", std::to_string(r.slices)});
  if (r.loss_scale) {
    table.add({"loss scale", fmt::format("{:g}, {} steps skipped for infinite gradients",
                                         *r.loss_scale, r.skipped_steps)});
  }
  table.add({"budget", format_bytes(r.budget_bytes)});
  table.add({"measured peak", format_bytes(r.measured_peak_bytes)});
  table.add({"planned peak, arena", fmt::format("{}, {}", format_bytes(r.planned_peak_bytes),
                                                format_bytes(r.arena_bytes))});
  table.add({"keep-all peak", format_bytes(r.keep_all_peak_bytes)});
  add_memory_row(table, r.memory, r.budget_bytes);
  table.add({"strategy", fmt::format("{} ({}), overhead {} predicted, gap {}, planned in {}",
                                     r.strategy, strategy::name(r.outcome), percent(r.overhead),
                                     percent(r.gap), duration(r.planning_seconds))});
  if (r.bytes_out > 0) {
    table.add(
        {"moved", fmt::format("{} out and {} in per step, {} waited", format_bytes(r.bytes_out),
                              format_bytes(r.bytes_in), duration(r.wait_seconds))});
  }
  table.add({"step", fmt::format("{} ({} predicted), {:.1f} {}/s", duration(r.step_seconds),
                                 duration(r.predicted_step_seconds), r.items_per_second, r.items)});
  table.add(
      {"process", fmt::format("{} at most, {} before the model", format_bytes(r.process_peak_bytes),
                              format_bytes(r.process_before_bytes))});
  if (r.keep_all_step_seconds) table.add({"check", describe_comparison(r)});
  return table.text(output_columns());
}

}  // namespace lowtide::cli
