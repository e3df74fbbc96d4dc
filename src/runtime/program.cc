#include "runtime/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stdexcept>

#include "base/error.h"
#include "graph/boundary.h"
#include "graph/extent.h"
#include "plan/residents.h"
#include "runtime/tensors.h"

namespace lowtide::runtime {
namespace {

std::size_t at(std::int32_t id) { return static_cast<std::size_t>(id); }

/// Total inputs, slots and outputs of all runs, to reserve: runs hold pointers into these vectors.
struct Sizes {
  Sizes(const Graph& graph, const Plan& plan) {
    for (const Action& action : plan.actions) {
      if (action.verb == Verb::prefetch) ++prefetches;
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
  std::size_t prefetches = 0;
};

class Compiler {
 public:
  Compiler(const Graph& graph, const Plan& plan, const BlockMap& map, const SectionAddresses& block,
           c10::Device device)
      : device_(device),
        graph_(graph),
        plan_(plan),
        map_(map),
        block_(block),
        program_(std::make_unique<Program>()),
        offset_(at(graph.num_tensors())),
        executed_(at(graph.num_ops())),
        counted_(counted_results(graph)),
        away_(residents_away(graph, plan)),
        live_bytes_(staying_bytes(graph, plan)) {}

  std::unique_ptr<Program> compile() {
    program_->kernels = bind_kernels(graph_, plan_, device_);
    reserve();
    place_residents();
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
    program_->values.reserve(at(graph_.num_tensors()) + sizes.outputs + sizes.prefetches);
    program_->ends.assign(at(graph_.num_tensors()), nullptr);
    program_->handed = program_->ends;
    program_->outside = program_->placed = program_->ends;
    program_->host_states.resize(static_cast<std::size_t>(map_.host_state_bytes));
  }

  void place_residents() {
    program_->values.resize(at(graph_.num_tensors()));
    for (TensorId id = 0; id < graph_.num_tensors(); ++id) {
      const Tensor& tensor = graph_.tensor(id);
      if (tensor.kind != Kind::resident || tensor.alias_of != kNone || away_[at(id)]) continue;
      program_->ends[at(id)] = &program_->values[at(id)];
      const Bytes offset = map_.residents[at(id)];
      if (offset < 0) {
        program_->outside[at(id)] = &program_->values[at(id)];
        continue;
      }
      offset_[at(id)] = offset;
      program_->values[at(id)] = tensor_over(block_.at(offset), tensor, device_);
      program_->placed[at(id)] = &program_->values[at(id)];
    }
  }

  void act(std::int32_t index) {
    const Action& action = plan_.actions[at(index)];
    if (action.verb == Verb::run && is_boundary(graph_.op(action.index))) {
      cross(graph_.op(action.index));
    } else if (action.verb == Verb::run) {
      run(index, action);
    } else if (action.verb == Verb::free) {
      release(graph_.storage(action.index));
    } else {
      move(index, action.verb, graph_.storage(action.index));
    }
  }

  void move(std::int32_t index, Verb verb, TensorId storage) {
    const at::Tensor* earlier = nullptr;
    if (verb == Verb::offload) offloaded_[storage] = program_->ends[at(storage)];
    if (verb == Verb::prefetch) {
      if (!away_[at(storage)]) earlier = offloaded_.at(storage);
      program_->values.emplace_back();
      program_->ends[at(storage)] = &program_->values.back();
      for (const Placement& placement : plan_.layout->placements[at(index)]) {
        offset_[at(storage)] = map_.arena + placement.offset;
        require_free(graph_.tensor(storage).name, placement, offset_[at(storage)]);
      }
      live_bytes_ += graph_.tensor(storage).bytes;
    }
    const Bytes offset = offset_[at(storage)];
    program_->moves.push_back({program_->runs.size(), index, verb, storage,
                               graph_.tensor(storage).bytes, offset, slower_offset(storage),
                               block_.at(offset), program_->ends[at(storage)], earlier});
  }

  Bytes slower_offset(TensorId storage) const {
    return std::ranges::find(plan_.slower->copies, storage, &Copy::storage)->offset;
  }

  /// The caller's code runs here; its tensors stay in its memory.
  void cross(const Op& boundary) {
    crossed_ = true;
    program_->boundary = program_->runs.size();
    program_->moves_before_boundary = program_->moves.size();
    for (TensorId in : boundary.inputs) {
      program_->handed[at(in)] = program_->ends[at(in)];
      add_result(graph_.storage(in));
    }
    for (TensorId out : boundary.outputs) {
      program_->values.emplace_back();
      program_->ends[at(out)] = &program_->values.back();
      if (has_fixed_place(out)) {
        program_->values.back() =
            tensor_over(block_.at(map_.foreign[at(out)]), graph_.tensor(out), device_);
        program_->placed[at(out)] = &program_->values.back();
      } else {
        program_->outside[at(out)] = &program_->values.back();
      }
    }
  }

  bool has_fixed_place(TensorId storage) const {
    return !map_.foreign.empty() && map_.foreign[at(storage)] >= 0;
  }

  void add_result(TensorId storage) {
    const auto known = [&](const Program::Result& result) { return result.storage == storage; };
    if (!is_outside(storage) || std::ranges::any_of(program_->results, known)) return;
    Program::Result result{storage, counted_[at(storage)], {}};
    for (const Program::Output& output : program_->outputs) {
      if (graph_.storage(output.tensor) == storage) result.values.push_back(output.value);
    }
    program_->results.push_back(std::move(result));
  }

  /// Whether this is a value in the caller's memory.
  bool is_outside(TensorId storage) const {
    return (counted_[at(storage)] || is_foreign(graph_.tensor(storage))) &&
           !has_fixed_place(storage);
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
    const Bytes workspace = place(index, action, op);
    run.slots = bind_slots(op, workspace);
    run.outputs = bind_outputs(op, action);
    run.outside = std::ranges::any_of(run.outputs, &Program::Output::outside);
    program_->runs.push_back(run);
    executed_[at(action.index)] = true;
  }

  void bind_generator(Program::Run& run) const {
    const Bytes offset = map_.generator_states[at(run.op)];
    if (offset < 0) return;
    run.generator_state =
        map_.host_state_bytes > 0 ? program_->host_states.data() + offset : block_.at(offset);
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
      if (crossed_ && counted_[at(graph_.storage(in))]) {
        throw InputError(fmt::format("op \"{}\" runs behind the boundary and needs \"{}\", which "
                                     "the caller is expected to drop before; plan again",
                                     op.name, graph_.tensor(in).name));
      }
      program_->inputs.push_back(program_->ends[at(in)]);
    }
    return std::span(program_->inputs).subspan(begin);
  }

  /// Sets the offset in the block of each output's storage; returns that of the workspace.
  Bytes place(std::int32_t index, const Action& action, const Op& op) {
    for (int position : action.in_place) overwrite(op, position);
    Bytes workspace = 0;
    for (const Placement& placement : plan_.layout->placements[at(index)]) {
      const Bytes offset = map_.arena + placement.offset;
      require_free(op.name, placement, offset);
      (placement.workspace ? workspace : offset_[at(placement.index)]) = offset;
    }
    for (TensorId out : op.outputs) {
      live_bytes_ += graph_.tensor(out).bytes;
      if (has_fixed_place(out)) offset_[at(out)] = map_.foreign[at(out)];
    }
    return workspace;
  }

  /// Before the boundary only results may use their section; afterwards only values of the block.
  void require_free(const std::string& name, const Placement& placement, Bytes offset) const {
    const bool is_result = !placement.workspace && counted_[at(placement.index)];
    const bool is_late = map_.late_begin <= offset && offset < map_.late_end;
    if (is_result == is_late || (!is_result && crossed_)) return;
    throw InputError(fmt::format("the layout has \"{}\" write {} the place of results that the "
                                 "caller drops; plan again",
                                 name, is_result ? "a result outside" : "something into"));
  }

  void overwrite(const Op& op, int position) {
    const auto pair = std::ranges::find(op.inplace, position, &InPlace::output);
    const TensorId source = graph_.storage(op.inputs[at(pair->input)]);
    offset_[at(op.outputs[at(position)])] = offset_[at(source)];
    release(source);
  }

  std::span<const device::Slot> bind_slots(const Op& op, Bytes workspace) {
    const std::size_t begin = program_->slots.size();
    for (const Allocation& allocation : op.allocations) {
      const bool scratch = allocation.output == kNone;
      device::Slot slot{.scratch = scratch};
      if (scratch) {
        slot.bytes = allocation.bytes;
        slot.offset = workspace + allocation.offset;
      } else {
        const TensorId out = op.outputs[at(allocation.output)];
        const Tensor& tensor = graph_.tensor(out);
        slot.bytes = has_fixed_place(out) ? extent_bytes(tensor) : tensor.bytes;
        slot.offset = offset_[at(out)];
        slot.beyond = is_outside(out);
      }
      slot.data = block_.at(slot.offset);
      program_->slots.push_back(slot);
    }
    return std::span(program_->slots).subspan(begin);
  }

  std::span<const Program::Output> bind_outputs(const Op& op, const Action& action) {
    const std::size_t begin = program_->outputs.size();
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      const TensorId out = op.outputs[i];
      program_->values.emplace_back();
      program_->ends[at(out)] = &program_->values.back();
      if (is_outside(out)) program_->outside[at(out)] = &program_->values.back();
      const bool allocated =
          std::ranges::count(op.allocations, static_cast<int>(i), &Allocation::output) > 0;
      const TensorId storage = graph_.storage(out);
      const bool view = storage != out;
      program_->outputs.push_back(
          {out, &program_->values.back(), offset_[at(storage)],
           view || program_->outside[at(out)] ? nullptr : block_.at(offset_[at(out)]),
           view ? program_->ends[at(storage)] : nullptr, allocated,
           program_->outside[at(storage)] != nullptr,
           std::ranges::count(action.in_place, static_cast<int>(i)) > 0});
    }
    return std::span(program_->outputs).subspan(begin);
  }

  c10::Device device_;
  const Graph& graph_;
  const Plan& plan_;
  const BlockMap& map_;
  const SectionAddresses& block_;
  std::unique_ptr<Program> program_;
  std::vector<Bytes> offset_;                        ///< by storage, in the block
  std::map<TensorId, const at::Tensor*> offloaded_;  ///< the values whose copies are made
  std::vector<bool> executed_;                       ///< by op
  std::vector<bool> counted_;  ///< by tensor: whether it is a result that owns bytes
  bool crossed_ = false;       ///< whether the boundary was met
  std::vector<bool> away_;     ///< by tensor: a resident that lies in slower memory at first
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

std::vector<std::unique_ptr<const Kernel>> bind_kernels(const Graph& graph, const Plan& plan,
                                                        c10::Device device) {
  std::vector<std::unique_ptr<const Kernel>> kernels(at(graph.num_ops()));
  for (const Action& action : plan.actions) {
    if (action.verb != Verb::run) continue;
    const Op& op = graph.op(action.index);
    if (is_boundary(op)) continue;
    std::unique_ptr<const Kernel>& kernel = kernels[at(action.index)];
    if (kernel == nullptr) {
      kernel = std::make_unique<const Kernel>(op, device);
    } else if (!kernel->can_withhold_mutated()) {
      throw InputError(fmt::format("op \"{}\" ({}) writes a required argument, "
                                   "so it may not run twice",
                                   op.name, op.type));
    }
  }
  return kernels;
}

void Program::move(const BlockMap& map, const SectionAddresses& from, const SectionAddresses& to) {
  for (device::Slot& slot : slots) slot.data = to.at(slot.offset);
  for (Run& run : runs) {
    if (run.generator_state == nullptr || map.host_state_bytes > 0) continue;
    run.generator_state = to.at(map.generator_states[at(run.op)]);
  }
  for (Output& output : outputs) {
    if (output.outside || from.at(output.offset) == to.at(output.offset)) continue;
    output.value->reset();
    if (output.base == nullptr) output.data = to.at(output.offset);
  }
  for (Move& move : moves) {
    if (from.at(move.offset) == to.at(move.offset)) continue;
    move.data = to.at(move.offset);
    if (move.verb == Verb::prefetch) move.value->reset();
  }
}

std::unique_ptr<Program> compile(const Graph& graph, const Plan& plan, const BlockMap& map,
                                 const SectionAddresses& block, c10::Device device) {
  check_profiled(graph, plan);
  return Compiler(graph, plan, map, block, device).compile();
}

}  // namespace lowtide::runtime
