#include "runtime/arena_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "device/replayed_draw.h"
#include "runtime/stopwatch.h"
#include "runtime/tensors.h"

namespace lowtide::runtime {

namespace {

/// A plan for another device may give values addresses with which this one's kernels take other
/// code.
void require_alignment(const Graph& graph, const device::ComputeDevice& device) {
  if (graph.alignment() % device.alignment() == 0) return;
  throw InputError(fmt::format(
      "graph \"{}\" was measured on another device than {}: its plan has addresses at multiples of "
      "{} bytes, and this device needs multiples of {}; profile it on this device and plan again",
      graph.name(), device.torch_device().str(), graph.alignment(), device.alignment()));
}

}  // namespace

ArenaRunner::ArenaRunner(const Graph& graph, const Plan& plan, const device::ComputeDevice& device,
                         BlockMap map, SectionAddresses block, Beyond beyond, slower::Store* slower)
    : graph_(graph),
      device_(device),
      map_(std::move(map)),
      block_(std::move(block)),
      program_(compile(graph, plan, map_, block_, device_.torch_device())),
      outside_(device_.system()),
      source_({block_.at(map_.reserve), beyond.reserve_bytes, map_.reserve},
              beyond.from_system ? &outside_ : nullptr, graph.alignment()),
      present_state_(static_cast<std::size_t>(device_.generator_state_bytes())),
      mover_(slower) {
  require_alignment(graph, device);
}

void ArenaRunner::move_to(const SectionAddresses& block) {
  if (block == block_) return;
  program_->move(map_, block_, block);
  block_ = block;
}

void ArenaRunner::begin() {
  source_.reset();
  outside_.clear();
  await_moves();  // of a step that failed
  next_move_ = 0;
  highest_move_ = 0;
  moved_before_ = mover_.counters();
}

void ArenaRunner::run(std::size_t from, std::size_t to, const ResultListener& listener,
                      StepReport& report, Effects effects) {
  submit(from, to, listener, report, effects);
  device_.synchronize();
}

void ArenaRunner::submit(std::size_t from, std::size_t to, const ResultListener& listener,
                         StepReport& report, Effects effects) {
  const auto service = device_.serve(source_, outside_);
  for (std::size_t i = from; i < to; ++i) {
    const Program::Run& run = program_->runs[i];
    move_before(i, report);
    if (!has_its_views(run)) execute(run, report, effects);
    if (!listener) continue;
    for (const Program::Output& output : run.outputs) {
      listener(run.action, output.tensor, *output.value);
    }
  }
  if (to == program_->boundary) move_until(program_->moves_before_boundary, report);
  if (to == program_->runs.size()) move_until(program_->moves.size(), report);
}

/// Copies and waits that the plan has right before the run.
void ArenaRunner::move_before(std::size_t run, StepReport& report) {
  const auto later = std::ranges::upper_bound(program_->moves, run, {}, &Program::Move::before);
  move_until(static_cast<std::size_t>(later - program_->moves.begin()), report);
}

void ArenaRunner::move_until(std::size_t end, StepReport& report) {
  const std::vector<Program::Move>& moves = program_->moves;
  for (; next_move_ < end; ++next_move_) {
    const Stopwatch watch;
    perform(moves[next_move_]);
    if (report.action_seconds.empty()) continue;
    report.action_seconds[static_cast<std::size_t>(moves[next_move_].action)] = watch.seconds();
  }
}

void ArenaRunner::perform(const Program::Move& move) {
  const std::string& name = graph_.tensor(move.storage).name;
  switch (move.verb) {
    case Verb::offload:
      mover_.out(move.storage, move.data, move.bytes, move.slower_offset, name);
      break;
    case Verb::prefetch:
      if (!move.value->defined()) *move.value = returning(move);
      highest_move_ = std::max(highest_move_, move.offset + move.bytes);
      mover_.in(move.storage, move.data, move.bytes, move.slower_offset, name);
      break;
    default: mover_.wait(move.storage); break;
  }
}

/// A kernel may have given a value another layout than the graph's.
at::Tensor ArenaRunner::returning(const Program::Move& move) const {
  if (move.earlier != nullptr) return tensor_over(move.data, *move.earlier);
  return tensor_over(move.data, graph_.tensor(move.storage), device_.torch_device());
}

void ArenaRunner::make_outside_views(std::size_t from, std::size_t to, StepReport& report) {
  for (std::size_t i = from; i < to; ++i) {
    const Program::Run& run = program_->runs[i];
    if (run.view && run.outside) execute(run, report, Effects::happen);
  }
}

void ArenaRunner::finish(StepReport& report) const {
  report.outside_bytes = outside_.peak_bytes();
  report.measured_peak_bytes =
      std::max({source_.highest(), map_.arena, highest_move_}) - map_.lead + report.outside_bytes;
  report.moved = mover_.counters() - moved_before_;
  report.allocations = source_.requests() + outside_.count();
}

std::vector<at::Tensor*> ArenaRunner::tensors_outside() {
  std::vector<at::Tensor*> found;
  for (at::Tensor* tensor : program_->outside) {
    if (tensor != nullptr) found.push_back(tensor);
  }
  for (const Program::Output& output : program_->outputs) {
    if (output.outside) found.push_back(output.value);
  }
  for (const Program::Output* number : numbers_on_host_) found.push_back(number->value);
  return found;
}

void ArenaRunner::forget_outside() {
  for (at::Tensor* tensor : tensors_outside()) tensor->reset();
}

/// Whether the run only makes views that an earlier step already made.
bool ArenaRunner::has_its_views(const Program::Run& run) {
  return run.view && !run.outside &&
         std::ranges::all_of(run.outputs, [](const auto& o) { return o.value->defined(); });
}

void ArenaRunner::execute(const Program::Run& run, StepReport& report, Effects effects) {
  const Stopwatch watch;
  last_op_ = run.op;
  const bool withhold = run.withhold_mutated || effects == Effects::left_out;
  source_.begin(run.slots);
  if (is_laid_out_otherwise(run, withhold)) source_.stray();
  call(run, withhold);
  settle(run, report);
  if (!report.action_seconds.empty()) {
    device_.synchronize();
    report.action_seconds[static_cast<std::size_t>(run.action)] = watch.seconds();
  }
}

/// Whether a kernel gave an input of the op another layout than the graph's: then the op may
/// request other memory than in its profile.
bool ArenaRunner::is_laid_out_otherwise(const Program::Run& run, bool withhold_mutated) const {
  const Op& op = graph_.op(run.op);
  for (std::size_t i = 0; i < run.inputs.size(); ++i) {
    if (withhold_mutated && std::ranges::count(op.mutates, static_cast<int>(i)) > 0) continue;
    if (!lies_as(graph_.tensor(op.inputs[i]), *run.inputs[i])) return true;
  }
  return false;
}

void ArenaRunner::call(const Program::Run& run, bool withhold) {
  if (run.draw == Program::Draw::again) {
    const device::ReplayedDraw draw(device_, run.generator_state, present_state_.data());
    run.kernel->run(run.inputs, withhold, results_);
    return;
  }
  if (run.draw == Program::Draw::first) device_.save_generator(run.generator_state);
  run.kernel->run(run.inputs, withhold, results_);
}

void ArenaRunner::settle(const Program::Run& run, StepReport& report) {
  const Op& op = graph_.op(run.op);
  require_results(op, results_.size());
  for (std::size_t i = 0; i < results_.size(); ++i) {
    if (!device_.is_host_memory() && is_number_on_host(results_[i])) {
      keep_on_host(run.outputs[i], std::move(results_[i]));
      continue;
    }
    require_on_device(run, results_[i]);
    require_as_before(run, run.outputs[i]);
    settle(run, run.outputs[i], results_[i], report);
  }
  if (source_.overrun_bytes() > 0) {
    report.overruns.push_back(fmt::format("op \"{}\" ({}) used {} unplanned bytes", op.name,
                                          op.type, source_.overrun_bytes()));
  }
  results_.clear();
}

/// Its address in the block stays unused.
void ArenaRunner::keep_on_host(const Program::Output& output, at::Tensor number) {
  *output.value = std::move(number);
  if (!was_on_host(output)) numbers_on_host_.push_back(&output);
}

bool ArenaRunner::was_on_host(const Program::Output& output) const {
  return std::ranges::any_of(numbers_on_host_,
                             [&](const auto* known) { return known->value == output.value; });
}

/// Ensures that the result is at its planned address; copies it there if needed.
void ArenaRunner::settle(const Program::Run& run, const Program::Output& output, at::Tensor& result,
                         StepReport& report) {
  if (output.outside && output.base == nullptr) {
    *output.value = in_block(result) ? result.clone() : std::move(result);
    return;
  }
  const void* const wanted = output.base == nullptr ? output.data : output.base->storage().data();
  if (result.storage().data() != wanted && result.numel() > 0) {
    if (output.base != nullptr) refuse_copy(run, output);
    at::Tensor placed = tensor_over(output.data, result);
    placed.copy_(result);
    result = std::move(placed);
    if (output.allocated) {
      report.overruns.push_back(
          fmt::format("\"{}\" had to be copied to its address", graph_.tensor(output.tensor).name));
    }
  }
  if (output.overwriting && !output.value->defined()) check_elements(run, output, result);
  if (output.base != nullptr) require_layout_of_base(run, output);
  if (output.outside || !output.value->defined()) *output.value = std::move(result);
}

/// An element may overwrite only the same element of the input.
void ArenaRunner::check_elements(const Program::Run& run, const Program::Output& output,
                                 const at::Tensor& result) const {
  const Op& op = graph_.op(run.op);
  for (const InPlace& pair : op.inplace) {
    if (op.outputs[static_cast<std::size_t>(pair.output)] != output.tensor) continue;
    const at::Tensor& input = *run.inputs[static_cast<std::size_t>(pair.input)];
    if (lie_alike(input, result)) return;
  }
  throw Error(fmt::format("op \"{}\" ({}) gives its result another layout than the graph "
                          "says, and the plan writes it over an input; make the plan of a graph "
                          "without this in-place pair",
                          op.name, op.type));
}

/// as_strided takes elements by their place in the storage, whatever the layout of its input is: in
/// another layout they would be other elements.
void ArenaRunner::require_layout_of_base(const Program::Run& run,
                                         const Program::Output& output) const {
  const Op& op = graph_.op(run.op);
  const Tensor& base = graph_.tensor(graph_.storage(output.tensor));
  if (op.type != "aten::as_strided" || lies_as(base, *output.base)) return;
  throw Error(fmt::format("op \"{}\" ({}) takes elements of \"{}\" by their addresses, and these "
                          "lie in another layout than the graph says; capture the step on this "
                          "device, with this version of torch",
                          op.name, op.type, base.name));
}

bool ArenaRunner::in_block(const at::Tensor& tensor) const {
  return block_.contain(tensor.data_ptr());
}

void ArenaRunner::require_on_device(const Program::Run& run, const at::Tensor& result) const {
  if (result.device() == device_.torch_device()) return;
  const Op& op = graph_.op(run.op);
  throw Error(fmt::format("op \"{}\" ({}) gives a result on {}, but the plan is for {}; make all "
                          "tensors of the step there",
                          op.name, op.type, result.device().str(), device_.torch_device().str()));
}

/// A number that is on the host where an op runs, and on the device where it is recorded, shifts
/// the requests of the op against its profile.
void ArenaRunner::require_as_before(const Program::Run& run, const Program::Output& output) const {
  if (!was_on_host(output)) return;
  const Op& op = graph_.op(run.op);
  throw Error(fmt::format("op \"{}\" ({}) keeps the seed of its dropout on the host, which no "
                          "recording can; use another kernel, such as flash attention in 16 bits, "
                          "or no dropout in it",
                          op.name, op.type));
}

void ArenaRunner::refuse_copy(const Program::Run& run, const Program::Output& output) const {
  throw Error(fmt::format("\"{}\" should be a view, but op \"{}\" ({}) makes a copy",
                          graph_.tensor(output.tensor).name, graph_.op(run.op).name,
                          graph_.op(run.op).type));
}

}  // namespace lowtide::runtime
