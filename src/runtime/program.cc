#include "runtime/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "base/error.h"
#include "graph/boundary.h"
#include "runtime/tensors.h"

namespace lowtide {
namespace {

std::size_t at(std::int32_t id) { return static_cast<std::size_t>(id); }

/// How many inputs, slots and outputs all runs have together: what they point to must not move.
struct Sizes {
  Sizes(const Graph& graph, const Plan& plan) {
    for (const Action& action : plan.actions) {
      if (action.verb != Verb::run) continue;
      const Op& op = graph.op(action.index);
      inputs += op.inputs.size();
      slots += op.allocations.size();
      outputs += op.outputs.size();
    }
  }
  std::size_t inputs = 0;
  std::size_t slots = 0;
  std::size_t outputs = 0;
};

class Compiler {
 public:
  Compiler(const Graph& graph, const Plan& plan, const BlockMap& map, std::byte* block)
      : graph_(graph),
        plan_(plan),
        map_(map),
        block_(block),
        program_(std::make_unique<Program>()),
        address_(at(graph.num_tensors())),
        executed_(at(graph.num_ops())),
        live_bytes_(graph.resident_bytes()) {}

  std::unique_ptr<Program> compile(c10::Device device) {
    program_->kernels = bind_kernels(graph_, plan_);
    reserve();
    place_residents(device);
    for (std::size_t a = 0; a < plan_.actions.size(); ++a) {
      act(static_cast<std::int32_t>(a));
      program_->memory.push_back(live_bytes_);
    }
    return std::move(program_);
  }

 private:
  void reserve() {
    const Sizes sizes(graph_, plan_);
    program_->inputs.reserve(sizes.inputs);
    program_->slots.reserve(sizes.slots);
    program_->outputs.reserve(sizes.outputs);
    program_->values.reserve(at(graph_.num_tensors()) + sizes.outputs);
    program_->ends.assign(at(graph_.num_tensors()), nullptr);
    program_->outside.assign(at(graph_.num_tensors()), nullptr);
  }

  void place_residents(c10::Device device) {
    program_->values.resize(at(graph_.num_tensors()));
    for (TensorId id = 0; id < graph_.num_tensors(); ++id) {
      const Tensor& tensor = graph_.tensor(id);
      if (tensor.kind != Kind::resident || tensor.alias_of != kNone) continue;
      program_->ends[at(id)] = &program_->values[at(id)];
      const Bytes offset = map_.residents[at(id)];
      if (offset < 0) {
        program_->outside[at(id)] = &program_->values[at(id)];
        continue;
      }
      address_[at(id)] = block_ + offset;
      program_->values[at(id)] = tensor_over(block_ + offset, tensor, device);
    }
  }

  void act(std::int32_t index) {
    const Action& action = plan_.actions[at(index)];
    if (action.verb == Verb::run && is_boundary(graph_.op(action.index))) {
      cross(graph_.op(action.index));
    } else if (action.verb == Verb::run) {
      run(index, action);
    } else {
      release(graph_.storage(action.index));
    }
  }

  /// The caller's code runs here, and what it makes stays in its memory.
  void cross(const Op& boundary) {
    program_->boundary = program_->runs.size();
    for (TensorId out : boundary.outputs) {
      program_->values.emplace_back();
      program_->ends[at(out)] = &program_->values.back();
      program_->outside[at(out)] = &program_->values.back();
    }
  }

  void release(TensorId storage) {
    live_bytes_ -= graph_.tensor(storage).bytes;
    forget(storage);
  }

  void forget(TensorId storage) {
    program_->ends[at(storage)] = nullptr;
    for (TensorId view : graph_.views(storage)) program_->ends[at(view)] = nullptr;
  }

  void run(std::int32_t index, const Action& action) {
    const Op& op = graph_.op(action.index);
    Program::Run run{};
    run.action = index;
    run.op = action.index;
    run.kernel = program_->kernels[at(action.index)].get();
    run.view = graph_.is_view_op(action.index);
    run.withhold_mutated = executed_[at(action.index)] && !op.mutates.empty();
    bind_generator(run);
    run.inputs = bind_inputs(op);
    const std::byte* const workspace = place(index, action, op);
    run.slots = bind_slots(op, workspace);
    run.outputs = bind_outputs(op, action);
    run.outside = std::ranges::any_of(run.outputs, &Program::Output::outside);
    program_->runs.push_back(run);
    executed_[at(action.index)] = true;
  }

  void bind_generator(Program::Run& run) const {
    const Bytes offset = map_.generator_states[at(run.op)];
    if (offset < 0) return;
    run.generator_state = block_ + offset;
    run.draw = executed_[at(run.op)] ? Program::Draw::again : Program::Draw::first;
  }

  std::span<const at::Tensor* const> bind_inputs(const Op& op) {
    const std::size_t begin = program_->inputs.size();
    for (TensorId in : op.inputs) {
      if (program_->ends[at(in)] == nullptr) {
        throw std::logic_error(fmt::format("\"{}\" runs without its input \"{}\": the plan was not "
                                           "verified",
                                           op.name, graph_.tensor(in).name));
      }
      program_->inputs.push_back(program_->ends[at(in)]);
    }
    return std::span(program_->inputs).subspan(begin);
  }

  /// Gives each output's storage its address, and returns that of the workspace.
  std::byte* place(std::int32_t index, const Action& action, const Op& op) {
    for (int position : action.in_place) overwrite(op, position);
    std::byte* workspace = nullptr;
    for (const Placement& placement : plan_.layout->placements[at(index)]) {
      std::byte* const data = block_ + map_.arena + placement.offset;
      if (placement.workspace) {
        workspace = data;
      } else {
        address_[at(placement.index)] = data;
      }
    }
    for (TensorId out : op.outputs) live_bytes_ += graph_.tensor(out).bytes;
    return workspace;
  }

  void overwrite(const Op& op, int position) {
    const auto pair = std::ranges::find(op.inplace, position, &InPlace::output);
    const TensorId source = graph_.storage(op.inputs[at(pair->input)]);
    address_[at(op.outputs[at(position)])] = address_[at(source)];
    release(source);
  }

  std::span<const Slot> bind_slots(const Op& op, const std::byte* workspace) {
    const std::size_t begin = program_->slots.size();
    for (const Allocation& allocation : op.allocations) {
      if (allocation.output == kNone) {
        program_->slots.push_back({.data = const_cast<std::byte*>(workspace) + allocation.offset,
                                   .bytes = allocation.bytes,
                                   .scratch = true});
      } else {
        const TensorId out = op.outputs[at(allocation.output)];
        const Tensor& tensor = graph_.tensor(out);
        program_->slots.push_back({address_[at(out)], tensor.bytes, is_foreign(tensor)});
      }
    }
    return std::span(program_->slots).subspan(begin);
  }

  std::span<const Program::Output> bind_outputs(const Op& op, const Action& action) {
    const std::size_t begin = program_->outputs.size();
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      const TensorId out = op.outputs[i];
      program_->values.emplace_back();
      program_->ends[at(out)] = &program_->values.back();
      if (is_foreign(graph_.tensor(out))) program_->outside[at(out)] = &program_->values.back();
      const bool allocated =
          std::ranges::count(op.allocations, static_cast<int>(i), &Allocation::output) > 0;
      const TensorId storage = graph_.storage(out);
      const bool view = storage != out;
      program_->outputs.push_back({out, &program_->values.back(),
                                   view || program_->outside[at(out)] ? nullptr : address_[at(out)],
                                   view ? program_->ends[at(storage)] : nullptr, allocated,
                                   program_->outside[at(storage)] != nullptr,
                                   std::ranges::count(action.in_place, static_cast<int>(i)) > 0});
    }
    return std::span(program_->outputs).subspan(begin);
  }

  const Graph& graph_;
  const Plan& plan_;
  const BlockMap& map_;
  std::byte* block_;
  std::unique_ptr<Program> program_;
  std::vector<std::byte*> address_;  ///< by storage
  std::vector<bool> executed_;       ///< by op
  Bytes live_bytes_;
};

void check_profiled(const Graph& graph, const Plan& plan) {
  for (const Action& action : plan.actions) {
    if (action.verb != Verb::run || graph.is_view_op(action.index)) continue;
    const Op& op = graph.op(action.index);
    if (is_boundary(op)) continue;
    if (op.cost_estimated && op.allocations.empty()) {
      throw InputError(fmt::format(
          "op \"{}\" ({}) was not profiled, so its scratch memory has no address; profile the "
          "graph first",
          op.name, op.type));
    }
  }
}

}  // namespace

std::vector<std::unique_ptr<const Kernel>> bind_kernels(const Graph& graph, const Plan& plan) {
  std::vector<std::unique_ptr<const Kernel>> kernels(at(graph.num_ops()));
  for (const Action& action : plan.actions) {
    if (action.verb != Verb::run) continue;
    const Op& op = graph.op(action.index);
    if (is_boundary(op)) continue;
    std::unique_ptr<const Kernel>& kernel = kernels[at(action.index)];
    if (kernel == nullptr) {
      kernel = std::make_unique<const Kernel>(op);
    } else if (!kernel->can_withhold_mutated()) {
      throw InputError(fmt::format("op \"{}\" ({}) writes an argument that it cannot do without, "
                                   "so it may not run twice",
                                   op.name, op.type));
    }
  }
  return kernels;
}

std::unique_ptr<Program> compile(const Graph& graph, const Plan& plan, const BlockMap& map,
                                 std::byte* block, c10::Device device) {
  check_profiled(graph, plan);
  return Compiler(graph, plan, map, block).compile(device);
}

}  // namespace lowtide
