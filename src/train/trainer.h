#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "report/memory_plot.h"
#include "strategy/strategy.h"
#include "train/options.h"

namespace lowtide::train {

/// The progress of a run, after each step.
struct StepProgress {
  std::int64_t step = 0;   ///< steps done
  std::int64_t steps = 0;  ///< in the whole run
  double loss = 0;
  double items_per_second = 0;
  std::string_view items;       ///< "tokens" or "images"
  Bytes memory_now_bytes = 0;   ///< resident set of the process
  Bytes memory_peak_bytes = 0;  ///< highest byte in use of any step so far
  Bytes step_peak_bytes = 0;    ///< of this step
  Bytes bytes_out = 0;          ///< that moved to slower memory in this step
  Bytes bytes_in = 0;           ///< and came back
};

/// What a forward pass gave.
struct PassOutput {
  Shape shape;
  std::uint64_t hash = 0;  ///< of all bytes, the same for the same bits
};

/// The result of a run. Byte counts include everything that the step holds: residents, values,
/// workspaces, generator states and the declared reserve.
struct TrainResult {
  bool stopped = false;              ///< by the user, after a whole step
  std::int64_t first_step = 0;       ///< steps done before this run
  std::vector<double> losses;        ///< of the steps of this run
  std::int64_t micro_batches = 1;    ///< of a batch
  std::int64_t slices = 1;           ///< of a micro-batch
  std::optional<double> loss_scale;  ///< after them, in fp16
  std::int64_t skipped_steps = 0;    ///< of them, for gradients that were not finite

  std::string strategy;
  strategy::Outcome outcome = strategy::Outcome::feasible;
  Bytes budget_bytes = 0;
  Bytes planned_peak_bytes = 0;
  Bytes arena_bytes = 0;
  Bytes measured_peak_bytes = 0;
  Bytes keep_all_peak_bytes = 0;
  report::MemoryCurve memory;         ///< as planned, over one step
  Bytes outside_bytes = 0;            ///< served by the framework's allocator instead
  std::int64_t allocations = 0;       ///< requests that the executor served in the last step
  std::vector<std::string> overruns;  ///< each once
  Bytes bytes_out = 0;                ///< that moved to slower memory in the last step
  Bytes bytes_in = 0;                 ///< and came back
  double wait_seconds = 0;            ///< that ops waited for these in the last step

  double overhead = 0;  ///< predicted: cost of the plan / cost of keep-all - 1
  std::optional<double> lower_bound_seconds;  ///< of a step of any plan within the budget
  std::optional<double> gap;
  double planning_seconds = 0;
  std::vector<double> seconds_of_steps;  ///< of the steps of this run
  double step_seconds = 0;               ///< median, without the first step if there are more
  double predicted_step_seconds = 0;
  double items_per_second = 0;
  std::string_view items;

  std::optional<PassOutput> output;                   ///< only of infer(), of the last batch
  std::optional<bool> bit_identical;                  ///< only with `check`
  std::string first_difference;                       ///< when not identical
  std::optional<double> keep_all_step_seconds;        ///< only with `check`
  std::optional<Bytes> keep_all_measured_peak_bytes;  ///< only with `check`

  Bytes process_before_bytes = 0;  ///< resident set before the model existed
  Bytes process_peak_bytes = 0;    ///< its highest value, including the run of `check`
  std::string save_error;          ///< why the last state could not be saved
};

/// Receives the events of a run.
struct TrainListener {
  std::function<void(const std::string&)> message;
  std::function<void(const StepProgress&)> step;
  /// Before the first step, with all that is known by then.
  std::function<void(const TrainResult&)> planned = {};
};

/// The options with which the run of this checkpoint continues.
TrainOptions resumed_options(const std::filesystem::path& checkpoint);

/// The whole pipeline: model, graph, profile, plan, executor, steps, checkpoints. A stop request
/// ends it after a whole step (TrainResult::stopped), or with StoppedError before the first step.
/// Throws InputError for options that do not fit, InfeasibleError before the first op when no plan
/// fits the budget, Error when an op fails.
TrainResult train(TrainOptions options, const TrainListener& listener);

/// The same for forward passes alone, of `options.steps` batches: nothing is trained or saved.
TrainResult infer(TrainOptions options, const TrainListener& listener);

}  // namespace lowtide::train
