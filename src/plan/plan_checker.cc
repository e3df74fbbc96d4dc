#include "plan/plan_checker.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/boundary.h"
#include "plan/broken_rule.h"

namespace lowtide {
namespace {

constexpr Bytes kNoAddress = -1;

/// Costs are sums of many terms in any order, so they differ by rounding.
bool is_near(double a, double b) {
  return std::abs(a - b) <= 1e-9 * std::max(std::abs(a), std::abs(b));
}

}  // namespace

PlanChecker::PlanChecker(const Graph& graph, const Plan& plan)
    : graph_(graph),
      plan_(plan),
      live_(graph.tensors().size()),
      is_away_(graph.tensors().size()),
      is_old_(graph.tensors().size()),
      address_(graph.tensors().size(), kNoAddress),
      runs_(graph.ops().size()),
      boundary_(find_boundary(graph)),
      writers_(graph.tensors().size()),
      slower_(graph, plan) {
  for (TensorId id = 0; id < graph.num_tensors(); ++id) {
    if (graph.tensor(id).kind != Kind::resident) continue;
    live_[id] = true;
    residents_ += graph.tensor(id).bytes;
  }
  if (plan.slower) {
    for (TensorId id : plan.slower->residents) send_away(id);
  }
  for (OpId id = 0; id < graph.num_ops(); ++id) {
    const Op& op = graph.op(id);
    for (int position : op.mutates) writers_[graph.storage(op.inputs[position])].push_back(id);
  }
  in_use_ = peak_ = residents_;
  if (plan.layout && plan.layout->placements.size() != plan.actions.size()) {
    break_rule(Rule::bad_index, "the layout has {} lists of addresses for {} actions",
               plan.layout->placements.size(), plan.actions.size());
  }
  if (plan.layout && !std::ranges::is_sorted(plan.layout->borders)) {
    break_rule(Rule::over_border, "the borders between sections are not in ascending order");
  }
}

std::string PlanChecker::text(TensorId id) const { return text_of(graph_, id); }

std::string PlanChecker::op_text(OpId id) const {
  return fmt::format("op {} (\"{}\")", id, graph_.op(id).name);
}

std::string PlanChecker::text(const Placement& what) const {
  return what.workspace ? "the workspace of " + op_text(what.index) : text(what.index);
}

void PlanChecker::act(std::int32_t at) {
  at_ = at;
  const Action& action = plan_.actions[at];
  const bool is_run = action.verb == Verb::run;
  const int count = is_run ? graph_.num_ops() : graph_.num_tensors();
  if (action.index < 0 || action.index >= count) {
    break_rule(Rule::bad_index, "there is no {} {}; the graph has {}", is_run ? "op" : "tensor",
               action.index, count);
  }
  switch (action.verb) {
    case Verb::run: run(action); break;
    case Verb::free: drop(graph_.storage(action.index), "freed"); break;
    case Verb::offload: offload(graph_.storage(action.index)); break;
    case Verb::prefetch: prefetch(graph_.storage(action.index)); break;
    case Verb::wait:
      now_ = std::max(now_, slower_.end_copy(graph_.storage(action.index), at));
      break;
  }
}

void PlanChecker::check_end() const {
  for (TensorId id = 0; id < graph_.num_tensors(); ++id) {
    if (slower_.is_moving(id)) {
      break_rule(Rule::copy_under_way, "the copy of {} is still under way at the end", text(id));
    }
    if (is_away_[id] && live_[id]) {
      break_rule(Rule::not_away, "{} is in memory at the end, and in slower memory at the start",
                 text(id));
    }
  }
  for (OpId id = 0; id < graph_.num_ops(); ++id) {
    const Op& op = graph_.op(id);
    const bool has_effect = !op.recomputable || !op.mutates.empty();
    if (has_effect && runs_[id] == 0) {
      break_rule(Rule::missing_effect, "{} has an effect and never runs", op_text(id));
    }
  }
  for (TensorId id : graph_.outputs()) {
    if (!live_[id]) {
      break_rule(Rule::output_not_live, "the graph's output {} is not live at the end", text(id));
    }
  }
}

void PlanChecker::check_budget(std::optional<Bytes> budget) const {
  if (!budget) return;
  if (peak_ > *budget) {
    break_rule(Rule::over_budget, "the peak of {} bytes exceeds the budget of {}", peak_, *budget);
  }
  if (plan_.layout && arena_bytes() > *budget) {
    break_rule(Rule::arena_over_budget, "the arena of {} bytes exceeds the budget of {}",
               arena_bytes(), *budget);
  }
}

void PlanChecker::check_claims() const {
  if (!is_near(plan_.cost, now_)) {
    break_rule(Rule::wrong_claim, "the plan says that it costs {}, but it costs {}", plan_.cost,
               now_);
  }
  slower_.check_claims();
  if (plan_.peak_bytes != peak_) {
    break_rule(Rule::wrong_claim, "the plan says that its peak is {} bytes, but it is {}",
               plan_.peak_bytes, peak_);
  }
  if (plan_.layout && plan_.layout->arena_bytes != arena_bytes()) {
    break_rule(Rule::wrong_claim, "the plan says that its arena takes {} bytes, but it takes {}",
               plan_.layout->arena_bytes, arena_bytes());
  }
  if (plan_.lower_bound && !is_near(*plan_.lower_bound, now_) && *plan_.lower_bound > now_) {
    break_rule(Rule::wrong_claim, "the plan's lower bound of {} is above its cost of {}",
               *plan_.lower_bound, now_);
  }
}

/// Between the halves the caller's own code runs. It sees what the first one wrote and drew.
void PlanChecker::check_half(OpId id) const {
  const Op& op = graph_.op(id);
  const bool has_effect = op.random || !op.recomputable || !op.mutates.empty();
  if (boundary_ == kNone || id == boundary_ || !has_effect) return;
  const bool is_second_half = runs_[boundary_] > 0;
  if (is_second_half != (id > boundary_)) {
    break_rule(Rule::effect_crosses, "{} has an effect, and runs {} {} instead of {} it",
               op_text(id), is_second_half ? "after" : "before", op_text(boundary_),
               is_second_half ? "before" : "after");
  }
}

void PlanChecker::run(const Action& action) {
  const OpId id = action.index;
  const Op& op = graph_.op(id);
  for (TensorId in : op.inputs) {
    if (!live_[in]) {
      break_rule(Rule::input_not_live, "{} needs {}, which is not live", op_text(id), text(in));
    }
    if (slower_.way(graph_.storage(in)) == SlowerChecker::Way::in) {
      break_rule(Rule::copy_under_way, "{} needs {}, whose copy has not arrived", op_text(id),
                 text(in));
    }
  }
  if (!graph_.is_view_op(id)) check_fresh(id);
  if (++runs_[id] > 1 && !op.recomputable) {
    break_rule(Rule::runs_twice, "{} may run only once", op_text(id));
  }
  if (runs_[id] == 1) {
    check_half(id);
    write_residents(op, id);
  }
  const std::vector<TensorId> overwritten = overwrite(action);
  for (TensorId out : op.outputs) make(id, out);
  for (TensorId out : op.outputs) {
    if (graph_.storage(out) == out && !std::ranges::count(overwritten, out)) place(out);
  }
  peak_ = std::max(peak_, in_use_ + op.workspace_bytes);
  now_ += op.cost;
  if (plan_.layout && op.workspace_bytes > 0) {
    const Bytes address = find_address(true, id);
    take({true, id, address}, op.workspace_bytes);
    arena_.give(address);
  }
}

/// Takes a resident out of memory before the first action. Its copy lasts for the whole step.
void PlanChecker::send_away(TensorId id) {
  const bool may = id >= 0 && id < graph_.num_tensors() && live_[id];
  if (!may) {
    break_rule(Rule::bad_resident,
               "tensor {} should lie in slower memory, but is no resident, or is "
               "listed twice",
               id);
  }
  live_[id] = false;
  is_away_[id] = true;
  residents_ -= graph_.tensor(id).bytes;
  slower_.add_resident(id);
}

/// By its first run; a later one writes nothing.
void PlanChecker::write_residents(const Op& op, OpId id) {
  for (int position : op.mutates) {
    const TensorId written = graph_.storage(op.inputs[position]);
    if (slower_.is_moving(written)) {
      break_rule(Rule::copy_under_way, "{} writes {} while a copy of it is under way", op_text(id),
                 text(written));
    }
    is_old_[written] = is_away_[written];
  }
}

/// An op's inputs must contain the writes of all earlier ops, and none of later ops. A view op
/// reads no bytes.
void PlanChecker::check_fresh(OpId id) const {
  for (TensorId in : graph_.op(id).inputs) {
    for (OpId writer : writers_[graph_.storage(in)]) {
      if (writer > id && runs_[writer] > 0) {
        break_rule(Rule::stale_input, "{} reads {} after {} overwrote it", op_text(id), text(in),
                   op_text(writer));
      }
      if (writer < id && runs_[writer] == 0) {
        break_rule(Rule::stale_input, "{} reads {} before {} wrote it", op_text(id), text(in),
                   op_text(writer));
      }
    }
  }
}

/// Lets the outputs written in place take over storage and address; returns them.
std::vector<TensorId> PlanChecker::overwrite(const Action& action) {
  std::vector<TensorId> targets;
  std::vector<std::pair<TensorId, Bytes>> moves;  // target, address
  for (int position : action.in_place) {
    const auto [target, source] = in_place_pair(action.index, position);
    if (std::ranges::count(targets, target) || !live_[source] || !is_value(source)) {
      break_rule(Rule::bad_in_place,
                 "{} cannot write {} over {}, which is resident or written already",
                 op_text(action.index), text(target), text(source));
    }
    const Bytes address = address_[source];
    drop(source, "overwritten");
    targets.push_back(target);
    moves.emplace_back(target, address);
  }
  for (const auto& [target, address] : moves) {
    if (address == kNoAddress || graph_.tensor(target).bytes == 0) continue;
    address_[target] = address;
    take({false, target, address}, graph_.tensor(target).bytes);
  }
  return targets;
}

std::pair<TensorId, TensorId> PlanChecker::in_place_pair(OpId id, int position) const {
  const Op& op = graph_.op(id);
  for (const InPlace& pair : op.inplace) {
    if (pair.output != position) continue;
    const TensorId target = op.outputs[pair.output], source = graph_.storage(op.inputs[pair.input]);
    if (graph_.tensor(target).bytes <= graph_.tensor(source).bytes) return {target, source};
    break_rule(Rule::bad_in_place, "{} cannot write {} over {}, which is smaller", op_text(id),
               text(target), text(source));
  }
  break_rule(Rule::bad_in_place, "{} may not write its output {} in place", op_text(id), position);
}

void PlanChecker::make(OpId id, TensorId out) {
  if (live_[out]) {
    break_rule(Rule::output_already_live, "{} runs while its output {} is live", op_text(id),
               text(out));
  }
  const TensorId storage = graph_.storage(out);
  if (storage != out && !live_[storage]) {
    break_rule(Rule::not_live, "{} makes {}, a view of {}, which is not live", op_text(id),
               text(out), text(storage));
  }
  live_[out] = true;
  if (storage == out) in_use_ += graph_.tensor(out).bytes;
}

void PlanChecker::place(TensorId storage) {
  const Bytes bytes = graph_.tensor(storage).bytes;
  if (!plan_.layout || bytes == 0) return;
  address_[storage] = find_address(false, storage);
  take({false, storage, address_[storage]}, bytes);
}

void PlanChecker::take(const Placement& what, Bytes bytes) {
  if (what.offset < 0 || what.offset > std::numeric_limits<Bytes>::max() - residents_ - bytes) {
    break_rule(Rule::negative_address, "{} has the address {}", text(what), what.offset);
  }
  const std::vector<Bytes>& borders = plan_.layout->borders;
  const auto border = std::ranges::upper_bound(borders, what.offset);
  if (border != borders.end() && *border < what.offset + bytes) {
    break_rule(Rule::over_border, "{} at [{}, {}) lies across the border at {}", text(what),
               what.offset, what.offset + bytes, *border);
  }
  const std::optional<TakenBytes::Span> other = arena_.take(what, bytes);
  if (!other) return;
  break_rule(Rule::overlap, "{} at [{}, {}) overlaps {} at [{}, {})", text(what), what.offset,
             what.offset + bytes, text(other->what), other->what.offset, other->end);
}

Bytes PlanChecker::find_address(bool workspace, std::int32_t index) const {
  const std::vector<Placement>& born = plan_.layout->placements[at_];
  const auto found = std::find_if(born.rbegin(), born.rend(), [&](const Placement& p) {
    return p.workspace == workspace && p.index == index;
  });
  if (found != born.rend()) return found->offset;
  break_rule(Rule::no_address, "{} has no address", text(Placement{workspace, index}));
}

void PlanChecker::drop(TensorId storage, std::string_view verb) {
  if (!may_move(storage) || !live_[storage]) {
    break_rule(Rule::not_live, "{} is {}, but it is {}", text(storage), verb,
               may_move(storage) ? "not live" : "resident");
  }
  if (slower_.is_moving(storage)) {
    break_rule(Rule::copy_under_way, "{} is {} while a copy of it is under way", text(storage),
               verb);
  }
  if (is_old_[storage]) {
    break_rule(Rule::old_copy, "{} is {}, and what was written to it is in no copy", text(storage),
               verb);
  }
  live_[storage] = false;
  for (TensorId view : graph_.views(storage)) live_[view] = false;
  in_use_ -= graph_.tensor(storage).bytes;
  if (address_[storage] != kNoAddress) arena_.give(address_[storage]);
  address_[storage] = kNoAddress;
}

void PlanChecker::offload(TensorId storage) {
  if (!may_move(storage) || !live_[storage]) {
    break_rule(Rule::not_live, "{} is offloaded, but it is {}", text(storage),
               may_move(storage) ? "not live" : "resident");
  }
  slower_.copy_out(storage, now_);
  is_old_[storage] = false;
}

void PlanChecker::prefetch(TensorId storage) {
  if (!slower_.has_copy(storage) || live_[storage]) {
    break_rule(Rule::bad_prefetch, "{} is live or was never offloaded", text(storage));
  }
  live_[storage] = true;
  in_use_ += graph_.tensor(storage).bytes;
  peak_ = std::max(peak_, in_use_);
  place(storage);
  slower_.copy_in(storage, now_);
}

}  // namespace lowtide
