#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

#include "cli/command.h"
#include "cli/or_null.h"
#include "cli/output.h"
#include "cli/training/run_options.h"
#include "cli/training/step_lines.h"
#include "cli/training/train_report.h"
#include "report/table.h"
#include "train/trainer.h"

namespace lowtide::cli {
namespace {

struct RunArguments {
  Edits<models::StepRecipe> recipe;
  Edits<planner::PlanningOptions> planning;
  Edits<train::TrainOptions> edits;
  HostArguments host;
  bool quiet = false;
  bool json = false;
};

std::string hash_text(const train::PassOutput& output) {
  return fmt::format("{:016x}", output.hash);
}

nlohmann::json pass_json(const train::TrainResult& r) {
  nlohmann::json j = {{"status", r.stopped ? "stopped" : "complete"},
                      {"batches", r.losses.size()},
                      {"losses", r.losses},
                      {"strategy", r.strategy},
                      {"plan_status", strategy::name(r.outcome)},
                      {"budget_bytes", r.budget_bytes},
                      {"arena_bytes", r.arena_bytes},
                      {"measured_peak_bytes", r.measured_peak_bytes},
                      {"keep_all_peak_bytes", r.keep_all_peak_bytes},
                      {"bytes_in", r.bytes_in},
                      {"wait_seconds", r.wait_seconds},
                      {"overhead", r.overhead},
                      {"gap", or_null(r.gap)},
                      {"planning_seconds", r.planning_seconds},
                      {"pass_seconds", r.step_seconds},
                      {"predicted_pass_seconds", r.predicted_step_seconds},
                      {"process_peak_bytes", r.process_peak_bytes}};
  if (r.output) j["output"] = {{"shape", r.output->shape}, {"hash", hash_text(*r.output)}};
  add_comparison(r, j);
  return j;
}

std::string pass_text(const train::TrainResult& r) {
  report::Table table(
      {"batches", fmt::format("{}{}", r.losses.size(), r.stopped ? " (stopped)" : "")},
      report::Table::Align::left);
  if (r.output) {
    table.add({"output", fmt::format("[{}], hash {}", fmt::join(r.output->shape, ", "),
                                     hash_text(*r.output))});
    table.add({"loss", fmt::format("{:.6f}", r.losses.back())});
  }
  table.add({"budget", format_bytes(r.budget_bytes)});
  table.add({"measured peak", format_bytes(r.measured_peak_bytes)});
  table.add({"keep-all peak", format_bytes(r.keep_all_peak_bytes)});
  table.add({"strategy", fmt::format("{} ({}), overhead {} predicted, planned in {}", r.strategy,
                                     strategy::name(r.outcome), percent(r.overhead),
                                     duration(r.planning_seconds))});
  if (r.bytes_in > 0) {
    table.add({"moved", fmt::format("{} in per batch, {} waited", format_bytes(r.bytes_in),
                                    duration(r.wait_seconds))});
  }
  table.add({"batch", fmt::format("{} ({} predicted)", duration(r.step_seconds),
                                  duration(r.predicted_step_seconds))});
  if (r.bit_identical) table.add({"check", describe_comparison(r)});
  return table.text(output_columns());
}

int run_model(const RunArguments& arguments) {
  train::TrainOptions options;
  options.steps = 1;
  apply_recipe(arguments.recipe, options.recipe);
  apply(arguments.planning, options.memory.planning);
  apply(arguments.edits, options);
  apply(arguments.host, options.memory);
  require_model(options.recipe);
  require_used_places(options.memory);
  Progress progress(arguments.quiet);
  const train::TrainResult result = train::infer(options, step_lines(progress));
  if (arguments.json) {
    print_json(pass_json(result));
  } else {
    print(pass_text(result));
  }
  return result.stopped ? kStopped : kSuccess;
}

}  // namespace

Action define_run(CLI::App& app) {
  auto arguments = std::make_shared<RunArguments>();
  auto& edits = arguments->edits;
  add_model_options(app, arguments->recipe);
  add_edit<std::int64_t>(app, edits, "--batches", "How many batches [1]",
                         [](train::TrainOptions& o, std::int64_t n) { o.steps = n; })
      ->check(in_whole_range(1, kLargestWhole))
      ->type_name("N")
      ->group("Run");
  add_data_options(app, edits);
  add_budget_option(app, edits);
  add_disk_options(app, edits);
  add_host_options(app, arguments->host);
  add_planning_options(app, arguments->planning);
  add_path(app, edits, "--weights", "Checkpoint with the parameters [random ones, of the seed]",
           &train::TrainOptions::weights);
  add_path(app, edits, "--profile", "Measurements of the ops [this device's, in the cache]",
           &train::TrainOptions::profile);
  add_path(app, edits, "--plan-out", "The plan", &train::TrainOptions::plan_out);
  add_path(app, edits, "--graph-out", "The measured graph", &train::TrainOptions::graph_out);
  app.add_flag_callback(
      "--check", [&edits] { edits.push_back([](train::TrainOptions& o) { o.check = true; }); },
      "Run in full memory as well and compare the outputs bit for bit");
  add_quiet_flag(app, arguments->quiet);
  add_json_flag(app, arguments->json);
  add_help(
      app,
      "Computes the forward pass of a model within a budget of bytes. With --disk, parameters\n"
      "that do not fit lie in a file and come into memory while other layers run, so that the\n"
      "model may be larger than the budget.",
      "  lowtide run --model gpt --layers 24 --width 1024 --budget 25% --disk /tmp --check\n"
      "  lowtide run --model gpt --text FILE --weights run.ckpt --budget 512MiB --disk /tmp\n");
  return [arguments] { return run_model(*arguments); };
}

}  // namespace lowtide::cli
