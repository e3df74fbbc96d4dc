#include "plan/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.h"
#include "plan/lower.h"
#include "plan/places.h"
#include "plan/residents.h"

namespace lowtide {
namespace {

/// The live storages and views, and their bytes.
class Machine {
 public:
  Machine(const Graph& graph, const Plan& plan)
      : graph_(graph),
        clock_(lanes_of_places(plan)),
        place_(places_of_copies(graph, plan)),
        live_(graph.num_tensors()),
        moves_(residents_away(graph, plan)),
        away_(moves_),
        stale_(graph.num_tensors()),
        copied_at_(graph.num_tensors(), kNoCopy),
        begun_(graph.num_tensors(), kNone),
        ran_(graph.num_ops()),
        now_bytes_(staying_bytes(graph, plan)) {
    for (TensorId id = 0; id < graph.num_tensors(); ++id) {
      live_[id] = graph.tensor(id).alias_of == kNone && graph.is_resident(id) && !moves_[id];
    }
    result_.peak_bytes = now_bytes_;
    result_.waited.resize(graph.tensors().size());
  }

  void act(const Action& action) {
    Bytes workspace = 0;
    switch (action.verb) {
      case Verb::run: workspace = run(action); break;
      case Verb::free: drop(storage(action.index)); break;
      case Verb::offload: offload(storage(action.index)); break;
      case Verb::prefetch: prefetch(storage(action.index)); break;
      case Verb::wait: wait(storage(action.index)); break;
    }
    note(now_bytes_ + workspace, workspace);
    ++time_;
  }

  Replay finish() {
    const bool all_ended = std::ranges::count(copied_at_, kNoCopy) == graph_.num_tensors();
    require(all_ended, "a copy is still under way at the end");
    for (TensorId id = 0; id < graph_.num_tensors(); ++id) {
      require(!moves_[id] || !live_[id], "a resident of slower memory is in memory at the end");
    }
    result_.cost = clock_.now();
    for (TensorId id = 0; id < graph_.num_tensors(); ++id) {
      if (begun_[id] != kNone) end(id);
    }
    collect_peak();
    return std::move(result_);
  }

 private:
  struct Life {
    TensorId storage;
    std::int32_t begin, end;  ///< in actions, half-open
  };

  void require(bool holds, std::string_view what) const {
    if (!holds) {
      throw InputError(fmt::format(
          "action {} of the plan cannot be done: {}. Verify the plan first.", time_, what));
    }
  }

  TensorId storage(TensorId id) const {
    require(id >= 0 && id < graph_.num_tensors(), "there is no such tensor");
    return graph_.storage(id);
  }

  Bytes run(const Action& action) {
    require(action.index >= 0 && action.index < graph_.num_ops(), "there is no such op");
    const Op& op = graph_.op(action.index);
    require(!ran_[action.index] || op.recomputable, "the op may run only once");
    for (TensorId in : op.inputs) {
      require(live_[in] && !is_arriving(graph_.storage(in)), "an input is not live");
    }
    if (!ran_[action.index]) write_residents(op);
    ran_[action.index] = true;
    for (int position : action.in_place) overwrite(op, position);
    for (TensorId out : op.outputs) make(out);
    clock_.run(op.cost);
    return op.workspace_bytes;
  }

  /// Only the first run of an op writes them. Their copies in slower memory are then old.
  void write_residents(const Op& op) {
    for (int position : op.mutates) {
      const TensorId written = graph_.storage(op.inputs[position]);
      require(copied_at_[written] == kNoCopy, "an op writes a resident that is being copied");
      stale_[written] = moves_[written];
    }
  }

  void overwrite(const Op& op, int position) {
    const auto pair = std::ranges::find(op.inplace, position, &InPlace::output);
    require(pair != op.inplace.end(), "that output may not be written in place");
    const TensorId source = graph_.storage(op.inputs[pair->input]);
    const TensorId target = op.outputs[position];
    require(graph_.tensor(target).bytes <= graph_.tensor(source).bytes,
            "the output is larger than the input that it overwrites");
    drop(source);
  }

  void make(TensorId id) {
    require(!live_[id], "an output is live already");
    const TensorId base = graph_.storage(id);
    if (base == id) {
      take(id);
    } else {
      require(live_[base], "an output is a view of a storage that is not live");
      live_[id] = true;
    }
  }

  void take(TensorId storage) {
    live_[storage] = true;
    begun_[storage] = time_;
    now_bytes_ += graph_.tensor(storage).bytes;
  }

  void drop(TensorId storage) {
    require(begun_[storage] != kNone, "the tensor is not live");
    require(copied_at_[storage] == kNoCopy, "a copy of the tensor is under way");
    require(!stale_[storage], "what was written to the resident is in no copy");
    end(storage);
    now_bytes_ -= graph_.tensor(storage).bytes;
    live_[storage] = false;
    for (TensorId view : graph_.views(storage)) live_[view] = false;
  }

  void offload(TensorId storage) {
    require(begun_[storage] != kNone, "the tensor is not live");
    require(copied_at_[storage] == kNoCopy, "a copy of the tensor is under way");
    away_[storage] = true;
    stale_[storage] = false;
    copied_at_[storage] = clock_.start_out(graph_.tensor(storage).bytes, place_[storage]);
  }

  void prefetch(TensorId storage) {
    require(away_[storage] && !live_[storage], "the tensor is live or was never offloaded");
    take(storage);
    copied_at_[storage] = clock_.start_in(graph_.tensor(storage).bytes, place_[storage]);
    arriving_.insert(storage);
  }

  void wait(TensorId storage) {
    require(copied_at_[storage] != kNoCopy, "no copy of the tensor is under way");
    const double end = std::exchange(copied_at_[storage], kNoCopy);
    result_.waited[storage] += std::max(0.0, end - clock_.now());
    clock_.wait_until(end);
    arriving_.erase(storage);
  }

  bool is_arriving(TensorId storage) const { return arriving_.contains(storage); }

  void end(TensorId storage) {
    lives_.push_back({storage, begun_[storage], time_});
    begun_[storage] = kNone;
  }

  void note(Bytes bytes, Bytes workspace) {
    result_.memory.push_back(bytes);
    if (bytes <= result_.peak_bytes) return;
    result_.peak_bytes = bytes;
    result_.peak_action = time_;
    result_.workspace_at_peak = workspace;
  }

  void collect_peak() {
    for (const Life& life : lives_) {
      if (life.begin <= result_.peak_action && result_.peak_action < life.end) {
        result_.live_at_peak.push_back(life.storage);
      }
    }
    std::ranges::sort(result_.live_at_peak, [&](TensorId a, TensorId b) {
      const Bytes left = graph_.tensor(a).bytes, right = graph_.tensor(b).bytes;
      return left != right ? left > right : a < b;
    });
  }

  static constexpr double kNoCopy = -1;

  const Graph& graph_;
  LaneClock clock_;
  const std::vector<PlaceIndex> place_;  // per storage: of its copy
  std::vector<bool> live_;
  std::vector<bool> moves_;        // a resident of slower memory
  std::vector<bool> away_;         // has a copy in slower memory
  std::vector<bool> stale_;        // of a resident: it was written since
  std::vector<double> copied_at_;  // per storage: when the copy under way ends; kNoCopy: none is
  std::set<TensorId> arriving_;
  std::vector<std::int32_t> begun_;  // per storage of a value: when its life began; kNone: dead
  std::vector<bool> ran_;
  std::vector<Life> lives_;
  Bytes now_bytes_;
  std::int32_t time_ = 0;
  Replay result_;
};

/// Ops that every plan runs: the graph's outputs or an effect depend on them.
std::vector<bool> needed_ops(const Graph& graph) {
  std::vector<bool> needed(graph.num_ops());
  for (TensorId id : graph.outputs()) {
    if (graph.producer(id) != kNone) needed[graph.producer(id)] = true;
  }
  for (OpId id = graph.num_ops() - 1; id >= 0; --id) {
    const Op& op = graph.op(id);
    if (!op.recomputable || !op.mutates.empty()) needed[id] = true;
    if (!needed[id]) continue;
    for (TensorId in : op.inputs) {
      if (graph.producer(in) != kNone) needed[graph.producer(in)] = true;
    }
  }
  return needed;
}

/// The fewest bytes of values that must exist at once while the op runs.
Bytes bytes_to_run(const Graph& graph, const Op& op, const std::vector<bool>& away) {
  std::vector<TensorId> storages;
  const auto add = [&](TensorId id) {
    const TensorId storage = graph.storage(id);
    if (!graph.is_resident(id) || (!away.empty() && away[storage])) storages.push_back(storage);
  };
  std::ranges::for_each(op.inputs, add);
  std::ranges::for_each(op.outputs, add);
  std::ranges::sort(storages);
  storages.erase(std::ranges::unique(storages).begin(), storages.end());
  Bytes bytes = op.workspace_bytes;
  for (TensorId id : storages) bytes += graph.tensor(id).bytes;

  std::vector<TensorId> overwritten;
  for (const InPlace& pair : op.inplace) {
    const TensorId source = graph.storage(op.inputs[pair.input]);
    const bool fits = graph.tensor(op.outputs[pair.output]).bytes <= graph.tensor(source).bytes;
    if (!fits || graph.is_resident(source) || std::ranges::count(overwritten, source)) continue;
    overwritten.push_back(source);
    bytes -= graph.tensor(source).bytes;
  }
  return bytes;
}

}  // namespace

Replay replay(const Graph& graph, const Plan& plan) {
  Machine machine(graph, plan);
  for (const Action& action : plan.actions) machine.act(action);
  return machine.finish();
}

Plan with_lanes(const Graph& graph, Plan plan, const PlaceLanes& lanes) {
  if (!plan.slower) return plan;
  plan.slower->lanes = lanes.first;
  if (plan.slower->second) plan.slower->second->lanes = lanes.second;
  plan.lower_bound.reset();
  plan.cost = replay(graph, plan).cost;
  return plan;
}

KeepAll keep_all_reference(const Graph& graph) {
  const Plan plan = keep_all(graph);
  return {plan.cost, plan.peak_bytes};
}

Floor structural_floor(const Graph& graph, const std::vector<bool>& away) {
  const std::vector<bool> needed = needed_ops(graph);
  Bytes residents = graph.resident_bytes();
  for (TensorId id = 0; id < static_cast<TensorId>(away.size()); ++id) {
    if (away[id]) residents -= graph.tensor(id).bytes;
  }
  Floor floor{residents, kNone};
  for (OpId id = 0; id < graph.num_ops(); ++id) {
    if (!needed[id]) continue;
    const Bytes bytes = residents + bytes_to_run(graph, graph.op(id), away);
    if (bytes > floor.bytes) floor = {bytes, id};
  }
  return floor;
}

}  // namespace lowtide
