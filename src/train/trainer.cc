#include "train/trainer.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"
#include "base/process_memory.h"
#include "device/dynamic_pool.h"
#include "models/micro_batches.h"
#include "plan/io.h"
#include "report/trace.h"
#include "slower/disk.h"
#include "train/checkpoint.h"
#include "train/data.h"
#include "train/hash.h"
#include "train/loop.h"
#include "train/planned_step.h"
#include "train/record.h"
#include "train/run.h"

namespace lowtide::train {
namespace fs = std::filesystem;
namespace {

/// A run that continues may save over its own checkpoint; nothing else may be written over.
void require_own_files(const TrainOptions& options) {
  std::vector<fs::path> taken = files_of(options.recipe.data);
  taken.push_back(options.profile);
  taken.push_back(options.weights);
  require_other_files(taken, {options.save});
  taken.push_back(options.save);
  taken.push_back(options.resume);
  require_other_files(taken,
                      {options.trace, options.plan_out, options.graph_out, options.gradients_out});
}

/// Checked first: after hours of training, an unwritable result file would be found too late.
void require_can_write_results(const TrainOptions& options) {
  for (const fs::path& file :
       {options.save, options.trace, options.plan_out, options.graph_out, options.gradients_out}) {
    require_can_write(file);
  }
  if (!options.memory.disk.empty()) slower::Disk(options.memory.disk);
}

void require_same_recipe(const RunState& saved, const TrainOptions& options) {
  if (const auto difference = first_difference(saved.options.recipe, options.recipe)) {
    throw InputError(
        fmt::format("{} is a checkpoint of another run ({}). Leave out options that the "
                    "checkpoint has already, or start a new run without --resume.",
                    options.resume.string(), *difference));
  }
}

/// The results of keep-all from the same start, for comparison; frees its memory before the planned
/// run allocates its own.
RunRecord reference_record(const Step& step, const TrainOptions& options,
                           const TrainListener& listener, TrainResult& result) {
  TrainOptions plain = options;
  plain.save.clear();
  plain.trace.clear();
  plain.memory = {};
  const Fitted fitted = fit(step, plain.memory, listener.message);
  Run run(step, fitted, plain);
  Recorder recorder(step.graph, run.executor());
  TrainResult of_reference;
  listener.message("note: running keep-all for comparison");
  Loop(plain, {.message = listener.message, .step = {}}, of_reference).drive(run, &recorder);
  if (of_reference.stopped) throw StoppedError("stopped during the keep-all run of --check.");
  result.keep_all_step_seconds = of_reference.step_seconds;
  result.keep_all_measured_peak_bytes = of_reference.measured_peak_bytes;
  return recorder.finish();
}

/// `executor_bytes`: the executor's memory apart from the plan's arena.
void describe(const Step& step, const Fitted& fitted, Bytes executor_bytes, TrainResult& result) {
  const Plan& plan = fitted.plan();
  const double to_seconds = 1e-6;  // costs of a profiled graph are in microseconds
  result.strategy = plan.strategy;
  result.outcome = fitted.planned.outcome;
  result.budget_bytes = fitted.division.budget_bytes;
  result.planned_peak_bytes = plan.peak_bytes + executor_bytes;
  result.arena_bytes = plan.layout->arena_bytes + executor_bytes;
  result.keep_all_peak_bytes = step.keep_all.peak_bytes;
  result.memory = report::memory_curve(step.graph, plan, plan.strategy);
  for (Bytes& bytes : result.memory.memory) bytes += executor_bytes;
  result.overhead = fitted.planned.overhead();
  if (plan.lower_bound) result.lower_bound_seconds = *plan.lower_bound * to_seconds;
  result.gap = fitted.planned.gap();
  result.planning_seconds = fitted.planned.seconds;
  result.predicted_step_seconds = plan.cost * to_seconds;
}

void compare(const Graph& graph, const RunRecord& reference, Recorder& recorder,
             TrainResult& result) {
  if (result.stopped) return;  // the runs are of different lengths
  const auto difference = first_difference(graph, reference, recorder.finish());
  result.bit_identical = !difference;
  result.first_difference = difference.value_or("");
}

/// The outputs of a forward pass are the loss and the model's own.
void describe_output(const Step& step, Run& run, TrainResult& result) {
  if (step.graph.outputs().size() < 2) return;
  const at::Tensor output = run.executor().output(step.graph.outputs().back());
  result.output = {output.sizes().vec(), fingerprint(output)};
}

/// A profile measured on a busy machine misjudges which ops are slow.
void remark_on_prediction(const TrainResult& result, const TrainListener& listener) {
  constexpr double kFar = 1.5;
  constexpr double kShort = 0.05;  // seconds; below, overhead of op calls dominates
  const double ratio = result.predicted_step_seconds / result.step_seconds;
  const bool is_near = ratio < kFar && ratio > 1 / kFar;
  if (!listener.message || result.step_seconds < kShort || is_near) return;
  listener.message(
      fmt::format("note: a step took {:.3g} s, but {:.3g} s were predicted. Either the machine is "
                  "busy now, or it was when its ops were measured: --measure-again measures them "
                  "once more.",
                  result.step_seconds, result.predicted_step_seconds));
}

void run_planned(const Step& step, const Fitted& fitted, const TrainOptions& options,
                 const TrainListener& listener, TrainResult& result) {
  std::optional<RunRecord> reference;
  if (options.check) reference = reference_record(step, options, listener, result);
  Run run(step, fitted, options);
  describe(step, fitted, run.executor_bytes(), result);
  if (listener.planned) listener.planned(result);
  std::optional<Recorder> recorder;
  if (options.check || !options.gradients_out.empty()) recorder.emplace(step.graph, run.executor());
  Loop loop(options, listener, result);
  loop.drive(run, recorder ? &*recorder : nullptr);
  if (reference) compare(step.graph, *reference, *recorder, result);
  if (result.losses.empty()) return;
  describe_output(step, run, result);
  remark_on_prediction(result, listener);
  if (!options.gradients_out.empty()) recorder->save_gradients(options.gradients_out);
  if (!options.trace.empty()) {
    const runtime::StepReport& last = loop.last();
    report::write_trace(step.graph, fitted.plan(), {last.action_seconds, last.action_memory},
                        options.trace);
  }
}

/// The gaps of a pool are known only when a step runs.
[[noreturn]] void refuse_pool(const device::PoolFull& error) {
  throw InfeasibleError(
      fmt::format("{}: the whole budget. A pool leaves gaps between tensors, which planned "
                  "addresses avoid: train with --memory static, or raise --budget.",
                  error.what()));
}

using MakePlanned = PlannedStep (*)(TrainOptions&, const Control::Listener&);

/// From the model to the last step.
void run_all(TrainOptions options, MakePlanned make_planned, const TrainListener& listener,
             TrainResult& result) {
  complete(options.recipe);
  result.items = item_name(models::find_model(options.recipe.model).task);
  result.process_before_bytes = resident_set_bytes();
  const auto [step, fitted] = make_planned(options, listener.message);
  result.micro_batches = options.recipe.micro_batches;
  result.slices = options.recipe.slices;
  if (!options.plan_out.empty()) write_plan(fitted.plan(), options.plan_out);
  if (Control::stop_requested()) throw StoppedError("stopped before the first step.");
  try {
    run_planned(step, fitted, options, listener, result);
  } catch (const device::PoolFull& error) {
    refuse_pool(error);
  }
  result.process_peak_bytes = peak_resident_set_bytes();
}

}  // namespace

TrainOptions resumed_options(const fs::path& checkpoint) {
  TrainOptions options = read_run_state(checkpoint).options;
  options.resume = options.save = checkpoint;
  return options;
}

TrainResult train(TrainOptions options, const TrainListener& listener) {
  TrainResult result;
  require_own_files(options);
  require_can_write_results(options);
  if (!options.resume.empty()) {
    const RunState saved = read_run_state(options.resume);
    for (const auto count : {&Recipe::micro_batches, &Recipe::slices}) {  // as chosen then
      if (options.recipe.*count == models::kAutomatic) {
        options.recipe.*count = saved.options.recipe.*count;
      }
    }
    require_same_recipe(saved, options);
    result.micro_batches = options.recipe.micro_batches;
    result.slices = options.recipe.slices;
    result.first_step = saved.step;
    if (saved.step >= options.steps) return result;
  }
  run_all(std::move(options), planned_step, listener, result);
  return result;
}

TrainResult infer(TrainOptions options, const TrainListener& listener) {
  TrainResult result;
  require_own_files(options);
  require_can_write_results(options);
  run_all(std::move(options), planned_pass, listener, result);
  return result;
}

}  // namespace lowtide::train
