#include "train/run.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "models/loss_scaler.h"
#include "train/record.h"

namespace lowtide::train {
namespace {

runtime::ExecutorOptions executor_options(const Fitted& fitted, const TrainOptions& options,
                                          slower::Store* store) {
  const MemoryOptions& memory = options.memory;
  const bool is_limited = memory.planning.budget.is_limited();
  const bool reserve = memory.overrun == runtime::ExecutorOptions::Overrun::reserve;
  return {.memory = memory.memory,
          .overrun = memory.overrun,
          .reserve_bytes = reserve ? memory.reserve_bytes : 0,
          .pool_bytes = is_limited ? fitted.division.budget_bytes : 0,
          .record_times = !options.trace.empty(),
          .slower = store};
}

BatchShape batch_shape(const Recipe& recipe) {
  const models::Task task = models::find_model(recipe.model).task;
  return {task, task == models::Task::tokens ? recipe.sizes.vocabulary : recipe.sizes.classes};
}

/// Other data would not fail, but would continue a different run.
void require_same_data(const RunState& then, const Batches& now) {
  if (then.data == now.identity()) return;
  throw InputError(
      fmt::format("the run was begun with {}, but the data now is {}. Give the same data "
                  "with --data.",
                  then.data, now.identity()));
}

}  // namespace

Run::Run(const Step& step, const Fitted& fitted, const TrainOptions& options)
    : graph_(step.graph),
      fitted_(fitted),
      options_(options),
      slower_(fitted.plan(), options.memory),
      executor_(step.graph, fitted.plan(), executor_options(fitted, options, slower_.store())),
      input_(only_resident(Role::input)),
      target_(only_resident(Role::target)),
      batches_(open_batches(options.recipe.data, batch_shape(options.recipe), input_,
                            options.recipe.seed)),
      loss_id_(step.graph.outputs().front()),
      items_(lowtide::train::items_per_step(batch_shape(options.recipe).task, input_)) {
  executor_.initialize(options.recipe.seed);
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  generator.set_current_seed(options.recipe.seed);
  if (!options.weights.empty()) load_weights(options.weights, state());
  if (options.resume.empty()) return;
  const RunState saved = read_run_state(options.resume);
  require_same_data(saved, *batches_);
  load_checkpoint(options.resume, state());
  done_ = saved.step;
}

at::Tensor Run::only_resident(Role role) {
  return executor_.resident(tensors_with_role(graph_, role).at(0));
}

runtime::StepReport Run::advance() {
  batches_->fill(done_, input_, target_);
  runtime::StepReport report = executor_.step();
  report.measured_peak_bytes += slower_.buffer_bytes();
  loss_ = executor_.output(loss_id_).item<double>();
  ++done_;
  return report;
}

std::optional<double> Run::loss_scale() const {
  for (TensorId id = 0; id < graph_.num_tensors(); ++id) {
    if (graph_.tensor(id).name != models::kLossScaleName) continue;
    return executor_.resident(id).item<double>();
  }
  return std::nullopt;
}

Bytes Run::executor_bytes() const {
  if (options_.memory.memory == runtime::ExecutorOptions::Memory::pool)
    return fitted_.division.executor_bytes;
  return executor_.block_bytes() - fitted_.plan().layout->arena_bytes + slower_.buffer_bytes();
}

std::vector<NamedTensor> Run::state() const {
  std::vector<NamedTensor> found;
  for (TensorId id = 0; id < graph_.num_tensors(); ++id) {
    const Tensor& tensor = graph_.tensor(id);
    if (is_state(tensor)) {
      found.push_back(
          {tensor.name, tensor.dtype.value_or(DType::f32), tensor.shape,
           [this, id] { return executor_.resident(id); },
           [this, id](const runtime::Executor::Fill& fill) { executor_.set_resident(id, fill); }});
    }
  }
  return found;
}

void Run::save(const std::filesystem::path& path) const {
  save_checkpoint(path, {options_, batches_->identity(), done_}, state());
}

}  // namespace lowtide::train
