#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "layout/layout.h"
#include "runtime/allocation_recorder.h"
#include "runtime/memory_mode.h"
#include "runtime/program.h"
#include "runtime/replayed_draw.h"
#include "runtime/stopwatch.h"
#include "runtime/tensors.h"

namespace lowtide {
namespace {

Bytes reserve_of(const ExecutorOptions& options) {
  if (options.overrun == ExecutorOptions::Overrun::stop) return 0;
  return options.reserve_bytes & ~(kArenaAlignment - 1);
}

class ArenaMode final : public MemoryMode {
 public:
  ArenaMode(const Graph& graph, const Plan& plan, const ExecutorOptions& options)
      : graph_(graph),
        options_(options),
        device_(cpu_device()),
        map_(map_block(graph, plan, device_.generator_state_bytes(), reserve_of(options))),
        block_(device_.allocate_block(map_.end)),
        program_(compile(graph, plan, map_, block_.get(), device_.torch_device())),
        source_({block_.get() + map_.reserve, reserve_of(options)}),
        present_state_(static_cast<std::size_t>(device_.generator_state_bytes())),
        actions_(plan.actions.size()) {}

  at::Tensor resident(TensorId id) override {
    return tensor_over(block_.get() + map_.residents[static_cast<std::size_t>(id)],
                       graph_.tensor(id), device_.torch_device(), block_);
  }

  at::Tensor output(TensorId id) override {
    const at::Tensor* value = program_->ends[static_cast<std::size_t>(id)];
    if (value == nullptr || !value->defined()) return {};
    return tensor_over(static_cast<std::byte*>(value->data_ptr()), *value, block_);
  }

  Bytes block_bytes() const override { return map_.end - map_.lead; }

  StepReport step(const ResultListener& listener) override;

 private:
  void execute(const Program::Run& run, StepReport& report);
  void call(const Program::Run& run);
  void settle(const Program::Run& run, StepReport& report);
  void settle(const Program::Run& run, const Program::Output& output, at::Tensor& result,
              StepReport& report);
  void finish(StepReport& report) const;

  const Graph& graph_;
  ExecutorOptions options_;
  const ComputeDevice& device_;
  BlockMap map_;
  std::shared_ptr<std::byte> block_;
  std::unique_ptr<Program> program_;
  PlannedSource source_;
  AllocationRecorder outside_;
  std::vector<std::byte> present_state_;
  std::vector<at::Tensor> results_;  ///< of the running op; kept for its memory
  std::size_t actions_;
  bool primed_ = false;  ///< whether every value of the program is filled
};

StepReport ArenaMode::step(const ResultListener& listener) {
  StepReport report;
  if (options_.record_times) report.action_seconds.assign(actions_, 0);
  source_.reset();
  outside_.clear();
  const Stopwatch watch;
  {
    const auto service = device_.serve(source_, outside_);
    for (const Program::Run& run : program_->runs) {
      if (!(primed_ && run.view)) execute(run, report);
      if (!listener) continue;
      for (const Program::Output& output : run.outputs) {
        listener(run.action, output.tensor, *output.value);
      }
    }
    device_.synchronize();
  }
  report.seconds = watch.seconds();
  primed_ = true;
  finish(report);
  return report;
}

void ArenaMode::finish(StepReport& report) const {
  const std::byte* const begin = block_.get() + map_.lead;
  const std::byte* const held = block_.get() + map_.arena;
  report.outside_bytes = outside_.peak_bytes();
  report.measured_peak_bytes =
      std::max(source_.highest(), held) - begin + report.outside_bytes;
  report.allocations = source_.requests() + outside_.count();
  if (options_.record_times) report.action_memory = program_->memory;
}

void ArenaMode::execute(const Program::Run& run, StepReport& report) {
  const Stopwatch watch;
  source_.begin(run.slots);
  call(run);
  settle(run, report);
  if (options_.record_times) {
    device_.synchronize();
    report.action_seconds[static_cast<std::size_t>(run.action)] = watch.seconds();
  }
}

void ArenaMode::call(const Program::Run& run) {
  if (run.draw == Program::Draw::again) {
    const ReplayedDraw draw(device_, run.generator_state, present_state_.data());
    run.kernel->run(run.inputs, run.withhold_mutated, results_);
    return;
  }
  if (run.draw == Program::Draw::first) device_.save_generator(run.generator_state);
  run.kernel->run(run.inputs, run.withhold_mutated, results_);
}

void ArenaMode::settle(const Program::Run& run, StepReport& report) {
  const Op& op = graph_.op(run.op);
  require_results(op, results_.size());
  for (std::size_t i = 0; i < results_.size(); ++i) {
    settle(run, run.outputs[i], results_[i], report);
  }
  if (source_.overrun_bytes() > 0) {
    report.overruns.push_back(fmt::format("op \"{}\" ({}) took {} bytes of the reserve", op.name,
                                          op.type, source_.overrun_bytes()));
  }
  results_.clear();
}

/// Sees to it that the result lies where the plan has it.
void ArenaMode::settle(const Program::Run& run, const Program::Output& output, at::Tensor& result,
                       StepReport& report) {
  const bool in_place = result.storage().data() == output.data || result.numel() == 0;
  if (!in_place && output.view) {
    throw Error(fmt::format("\"{}\" should be a view, but op \"{}\" ({}) makes a copy",
                            graph_.tensor(output.tensor).name, graph_.op(run.op).name,
                            graph_.op(run.op).type));
  }
  if (!in_place) {
    at::Tensor placed = tensor_over(output.data, result);
    placed.copy_(result);
    result = std::move(placed);
    if (output.allocated) {
      report.overruns.push_back(fmt::format("\"{}\" had to be copied to its address",
                                            graph_.tensor(output.tensor).name));
    }
  }
  if (!primed_) *output.value = std::move(result);
}

}  // namespace

std::unique_ptr<MemoryMode> arena_mode(const Graph& graph, const Plan& plan,
                                       const ExecutorOptions& options) {
  return std::make_unique<ArenaMode>(graph, plan, options);
}

}  // namespace lowtide
