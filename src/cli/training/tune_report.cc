#include "cli/training/tune_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/or_null.h"
#include "cli/output.h"
#include "models/precision.h"
#include "report/table.h"

namespace lowtide::cli {
namespace {

using train::Candidate;

/// The options of `lowtide train` by which the candidate differs from those that were given.
std::string train_options(const Candidate& candidate) {
  const train::TrainOptions& options = candidate.options;
  std::string text = fmt::format("--precision {} --micro-batches {}",
                                 models::precision_name(options.recipe.precision.compute),
                                 options.recipe.micro_batches);
  if (options.recipe.slices > 1) text += fmt::format(" --slices {}", options.recipe.slices);
  if (!options.memory.disk.empty()) text += " --disk " + options.memory.disk.string();
  return text;
}

std::string why(const Candidate& candidate) {
  if (!candidate.fits()) return candidate.why_not;
  if (candidate.overhead <= 1e-4) return "keeps every value";
  return fmt::format("{:.1f}% longer than when every value is kept", 100 * candidate.overhead);
}

std::string seconds_text(const std::optional<double>& seconds) {
  return seconds ? duration(*seconds) : "-";
}

std::string peak_text(const Candidate& candidate) {
  if (!candidate.peak_bytes) return "-";
  const std::string bytes = format_bytes(*candidate.peak_bytes);
  return candidate.fits() ? bytes : "needs " + bytes;
}

nlohmann::json candidate_json(const Candidate& candidate) {
  return {{"combination", train::words(candidate)},
          {"train_options", train_options(candidate)},
          {"fits", candidate.fits()},
          {"predicted_step_seconds", or_null(candidate.predicted_seconds)},
          {"overhead", candidate.overhead},
          {"peak_bytes", or_null(candidate.peak_bytes)},
          {"step_seconds", or_null(candidate.measured_seconds)},
          {"measured_peak_bytes", or_null(candidate.measured_peak_bytes)},
          {"results", train::numerics(candidate)},
          {"why", why(candidate)}};
}

}  // namespace

std::string tuning_text(const train::Tuning& found, Bytes budget) {
  report::Table table({"combination", "predicted", "run", "peak", "results", "why"});
  table.align(4, report::Table::Align::left);
  table.align(5, report::Table::Align::left);
  for (const Candidate& one : found.ranked) {
    table.add({train::words(one), seconds_text(one.predicted_seconds),
               seconds_text(one.measured_seconds), peak_text(one), train::numerics(one), why(one)});
  }
  const Candidate& first = found.ranked.front();
  const std::string end =
      first.fits() ? fmt::format("The first: lowtide train, with the options that were given, and "
                                 "{}\n",
                                 train_options(first))
                   : std::string("No combination fits.\n");
  return fmt::format("within {}\n\n{}\n{}", format_bytes(budget), table.text(output_columns()),
                     end);
}

nlohmann::json tuning_json(const train::Tuning& found, Bytes budget) {
  nlohmann::json ranked = nlohmann::json::array();
  for (const Candidate& candidate : found.ranked) ranked.push_back(candidate_json(candidate));
  return {{"status", found.stopped ? "stopped" : "complete"},
          {"budget_bytes", budget},
          {"ranked", ranked}};
}

}  // namespace lowtide::cli
