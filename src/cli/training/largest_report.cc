#include "cli/training/largest_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/or_null.h"
#include "cli/output.h"
#include "cli/planned_json.h"
#include "report/table.h"

namespace lowtide::cli {
namespace {

/// The trial that a result rests on: the last one of that size.
const largest::Trial& deciding(const largest::Largest& found) {
  const auto last =
      std::find_if(found.trials.rbegin(), found.trials.rend(), [&](const largest::Trial& trial) {
        return trial.size == found.size && trial.evidence == found.evidence;
      });
  return *last;
}

nlohmann::json run_json(const std::optional<largest::StepRun>& run) {
  if (!run) return nullptr;
  return {{"measured_peak_bytes", run->measured_peak_bytes}, {"step_seconds", run->seconds}};
}

nlohmann::json error_json(const std::optional<largest::InterpolationError>& error) {
  if (!error) return nullptr;
  return {{"step", error->step}, {"median_op", error->median_op}, {"peak", error->peak}};
}

nlohmann::json trial_json(const largest::Trial& trial) {
  nlohmann::json why = nullptr;
  if (!trial.fits) why = trial.why_not;
  return {{"size", trial.size},
          {"evidence", largest::name(trial.evidence)},
          {"fits", trial.fits},
          {"why_not", why},
          {"overhead", or_null(trial.overhead)},
          {"smallest_budget_bytes", or_null(trial.smallest_budget)},
          {"run", run_json(trial.run)},
          {"interpolation", error_json(trial.error)}};
}

std::string evidence_text(const largest::Trial& trial) {
  if (trial.run) {
    return fmt::format("a step ran in {}, with a peak of {}", duration(trial.run->seconds),
                       format_bytes(trial.run->measured_peak_bytes));
  }
  if (trial.evidence == largest::Evidence::measured) return "measured and planned, not run";
  return "planned by estimates, neither measured nor run";
}

std::string next_text(const largest::Largest& found) {
  if (!found.too_large) {
    return found.stopped ? "not known, as the search was stopped" : "not tried: above --limit";
  }
  const bool is_proved = found.too_large_evidence == largest::Evidence::bound;
  return fmt::format("{} {}: {}", *found.too_large,
                     is_proved ? "is too large" : "was not found to fit", found.why_too_large);
}

std::string error_text(const largest::InterpolationError& error) {
  return fmt::format("step {:+.1f}%, half of its time in ops within {:.1f}%, peak {:+.1f}%",
                     100 * error.step, 100 * error.median_op, 100 * error.peak);
}

}  // namespace

std::string largest_text(const std::string& model, const largest::Question& question,
                         const largest::Largest& found) {
  const largest::Trial& trial = deciding(found);
  report::Table table({"model", model}, report::Table::Align::left);
  table.add({"largest " + question.what,
             fmt::format("{}{}", found.size, found.stopped ? " so far (stopped)" : "")});
  table.add({"budget", format_bytes(question.budget_bytes)});
  table.add({"proof", evidence_text(trial)});
  table.add({"next " + question.what, next_text(found)});
  table.add({"strategy", fmt::format("{} ({}), overhead {}", found.planned.plan->strategy,
                                     strategy::name(found.planned.outcome),
                                     percent(found.planned.overhead()))});
  table.add({"times", found.costs});
  if (trial.error) table.add({"interpolated", error_text(*trial.error)});
  table.add({"sizes tried", fmt::format("{}, {} of planning", found.trials.size(),
                                        duration(found.planning_seconds))});
  return table.text(output_columns());
}

nlohmann::json largest_json(const std::string& model, const largest::Question& question,
                            const largest::Largest& found) {
  const largest::Trial& trial = deciding(found);
  nlohmann::json trials = nlohmann::json::array();
  for (const largest::Trial& one : found.trials) trials.push_back(trial_json(one));
  nlohmann::json too_large = nullptr;
  if (found.too_large) {
    too_large = {{"size", *found.too_large},
                 {"evidence", largest::name(found.too_large_evidence)},
                 {"why", found.why_too_large}};
  }
  return {{"status", found.stopped ? "stopped" : "complete"},
          {"model", model},
          {"what", question.what},
          {"size", found.size},
          {"evidence", largest::name(found.evidence)},
          {"too_large", too_large},
          {"budget_bytes", question.budget_bytes},
          {"extra_time", largest::format_extra_time(question.extra)},
          {"run", run_json(trial.run)},
          {"interpolation", error_json(trial.error)},
          {"plan", to_json(found.planned, found.planned.plan->strategy)},
          {"costs", found.costs},
          {"planning_seconds", found.planning_seconds},
          {"trials", trials}};
}

}  // namespace lowtide::cli
