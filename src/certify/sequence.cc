#include "certify/sequence.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "certify/flaw.h"
#include "plan/places.h"

namespace lowtide::certify {
namespace {

class Follower {
 public:
  Follower(const Graph& graph, const Stages& stages, const Plan& plan)
      : graph_(graph),
        stages_(stages),
        clock_(lanes_of_places(plan)),
        place_(places_of_copies(graph, plan)),
        live_(graph.tensors().size()),
        copies_(graph.tensors().size()),
        ran_(graph.ops().size()),
        writers_(graph.tensors().size()) {
    for (TensorId id = 0; id < graph.num_tensors(); ++id) {
      live_[id] = graph.tensor(id).alias_of == kNone && graph.is_resident(id);
    }
    for (OpId id = 0; id < graph.num_ops(); ++id) {
      for (int at : graph.op(id).mutates) {
        writers_[graph.storage(graph.op(id).inputs[at])].push_back(id);
      }
    }
    held_ = totals_.peak_bytes = graph.resident_bytes();
    if (!plan.slower) return;
    for (TensorId id : plan.slower->residents) begin_away(id);
    totals_.peak_bytes = held_;
  }

  void act(const Action& action) {
    if (action.verb == Verb::run) {
      if (action.index < 0 || action.index >= graph_.num_ops()) bad("there is no such op");
      run(action.index, action.in_place);
    } else {
      if (action.index < 0 || action.index >= graph_.num_tensors()) bad("there is no such tensor");
      act_on(graph_.storage(action.index), action.verb);
    }
    ++action_;
  }

  SequenceTotals finish() {
    for (TensorId id = 0; id < graph_.num_tensors(); ++id) {
      if (copies_[id].ends) refuse(Flaw::bad_plan, "a copy is under way at the end");
      if (copies_[id].of_resident && live_[id]) {
        refuse(Flaw::bad_plan, "{} is in memory at the end, and was not at the start",
               tensor_text(graph_, id));
      }
    }
    totals_.cost = clock_.now();
    for (OpId id = 0; id < graph_.num_ops(); ++id) {
      const Op& op = graph_.op(id);
      if (!ran_[id] && (!op.recomputable || !op.mutates.empty())) {
        refuse(Flaw::bad_plan, "{} has an effect and never runs", op_text(graph_, id));
      }
    }
    for (TensorId id : graph_.outputs()) {
      if (!live_[id]) {
        refuse(Flaw::bad_plan, "the graph's output {} is not live at the end",
               tensor_text(graph_, id));
      }
    }
    return totals_;
  }

 private:
  /// Of a storage, in slower memory.
  struct CopyOf {
    bool of_resident = false;    ///< that lies there at the start and at the end
    bool exists = false;         ///< from its first offload on
    bool is_old = false;         ///< an op has written the resident since
    std::optional<double> ends;  ///< the copy that is under way
    bool arrives = false;        ///< that copy is one back
  };

  void begin_away(TensorId id) {
    const bool may = id >= 0 && id < graph_.num_tensors() &&
                     graph_.tensor(id).kind == Kind::resident && live_[id];
    if (!may) refuse(Flaw::bad_plan, "tensor {} is no resident, or moves twice", id);
    live_[id] = false;
    copies_[id].of_resident = copies_[id].exists = true;
    held_ -= graph_.tensor(id).bytes;
  }

  /// A resident that stays in memory.
  bool stays(TensorId storage) const {
    return graph_.is_resident(storage) && !copies_[storage].of_resident;
  }

  void act_on(TensorId storage, Verb verb) {
    CopyOf& copy = copies_[storage];
    const Bytes bytes = graph_.tensor(storage).bytes;
    if (verb == Verb::wait) {
      if (!copy.ends) bad("no copy of the value is under way");
      clock_.wait_until(*copy.ends);
      copy.ends.reset();
      copy.arrives = false;
      return;
    }
    if (verb == Verb::free) return end(storage);
    if (stays(storage)) bad("a resident tensor that stays does not move");
    if (copy.ends) bad("another copy of the value is under way");
    if (verb == Verb::offload) {
      if (!live_[storage]) bad("the value is not live");
      copy.exists = true;
      copy.is_old = false;
      copy.ends = clock_.start_out(bytes, place_[storage]);
    } else {
      if (!copy.exists) bad("the value was never offloaded");
      make(storage);
      copy.ends = clock_.start_in(bytes, place_[storage]);
      copy.arrives = true;
      totals_.peak_bytes = std::max(totals_.peak_bytes, held_);
    }
  }

  [[noreturn]] void bad(std::string_view why) const {
    refuse(Flaw::bad_plan, "action {} cannot be done: {}", action_, why);
  }

  void run(OpId id, const std::vector<int>& in_place) {
    const Op& op = graph_.op(id);
    if (ran_[id] && !op.recomputable) bad("the op may run only once");
    for (TensorId in : op.inputs) read(id, in);
    if (!ran_[id]) write_residents(op);
    if (!ran_[id]) note_first_run(id);
    ran_[id] = true;
    for (int output : in_place) overwrite(op, output);
    for (TensorId out : op.outputs) make(out);
    clock_.run(op.cost);
    totals_.peak_bytes = std::max(totals_.peak_bytes, held_ + op.workspace_bytes);
  }

  void read(OpId id, TensorId in) const {
    if (!live_[in]) bad("an input is not live");
    if (copies_[graph_.storage(in)].arrives) bad("an input has not arrived yet");
    if (graph_.is_view_op(id)) return;  // reads no bytes
    for (OpId writer : writers_[graph_.storage(in)]) {
      if (writer > id && ran_[writer]) bad("a later op has overwritten an input");
      if (writer < id && !ran_[writer]) bad("an earlier op has not yet written an input");
    }
  }

  /// Only the first run writes.
  void write_residents(const Op& op) {
    for (int at : op.mutates) {
      CopyOf& copy = copies_[graph_.storage(op.inputs[at])];
      if (copy.ends) bad("it writes a resident that is being copied");
      copy.is_old = copy.of_resident;
    }
  }

  void note_first_run(OpId id) {
    const int stage = stages_.of_op[id];
    if (stage == kNone) return;
    totals_.keeps_order = totals_.keeps_order && stage >= next_stage_;
    next_stage_ = stage + 1;
  }

  void overwrite(const Op& op, int output) {
    const auto pair = std::ranges::find(op.inplace, output, &InPlace::output);
    if (pair == op.inplace.end()) bad("that output may not be written in place");
    const TensorId source = graph_.storage(op.inputs[pair->input]);
    if (graph_.tensor(op.outputs[output]).bytes > graph_.tensor(source).bytes) {
      bad("an output is larger than the input that it overwrites");
    }
    end(source);
  }

  void make(TensorId out) {
    if (live_[out]) bad("an output is live already");
    if (!live_[graph_.storage(out)] && graph_.storage(out) != out) {
      bad("it makes a view of a storage that is not live");
    }
    live_[out] = true;
    held_ += graph_.tensor(out).bytes;  // 0 for a view
  }

  void end(TensorId storage) {
    if (stays(storage) || !live_[storage]) bad("a value to end is not live");
    if (copies_[storage].ends) bad("a copy of a value to end is under way");
    if (copies_[storage].is_old) bad("what was written to a resident to end is in no copy");
    live_[storage] = false;
    for (TensorId view : graph_.views(storage)) live_[view] = false;
    held_ -= graph_.tensor(storage).bytes;
  }

  const Graph& graph_;
  const Stages& stages_;
  LaneClock clock_;
  const std::vector<PlaceIndex> place_;     // by storage: of its copy
  std::vector<bool> live_;                  // per tensor
  std::vector<CopyOf> copies_;              // per storage
  std::vector<bool> ran_;                   // per op
  std::vector<std::vector<OpId>> writers_;  // per storage: ops with an effect on it
  int next_stage_ = 0;
  std::size_t action_ = 0;
  Bytes held_ = 0;
  SequenceTotals totals_;
};

}  // namespace

SequenceTotals follow(const Graph& graph, const Stages& stages, const Plan& plan) {
  Follower follower(graph, stages, plan);
  for (const Action& action : plan.actions) follower.act(action);
  return follower.finish();
}

}  // namespace lowtide::certify
