#include "runtime/block_map.h"

#include <algorithm>
#include <bit>

#include "graph/boundary.h"
#include "graph/extent.h"
#include "layout/sections.h"
#include "plan/residents.h"

namespace lowtide::runtime {
namespace {

/// The largest power of two up to `most` that divides the size.
Bytes natural_alignment(Bytes bytes, Bytes most) {
  if (bytes == 0) return most;
  return std::min<Bytes>(Bytes{1} << std::countr_zero(static_cast<std::uint64_t>(bytes)), most);
}

/// Those that stay in memory.
std::vector<TensorId> residents_by_alignment(const Graph& graph, const Plan& plan) {
  const std::vector<bool> away = residents_away(graph, plan);
  std::vector<TensorId> ids;
  for (TensorId id = 0; id < graph.num_tensors(); ++id) {
    const Tensor& tensor = graph.tensor(id);
    const bool stays = tensor.kind == Kind::resident && !away[static_cast<std::size_t>(id)];
    if (stays && tensor.alias_of == kNone) ids.push_back(id);
  }
  std::ranges::stable_sort(ids, {}, [&](TensorId id) {
    return natural_alignment(graph.tensor(id).bytes, graph.alignment());
  });
  return ids;
}

/// Random ops that the plan runs again, from the state of the generator at their first run.
std::vector<OpId> ops_with_states(const Graph& graph, const Plan& plan) {
  std::vector<int> count(static_cast<std::size_t>(graph.num_ops()));
  for (const Action& action : plan.actions) {
    if (action.verb == Verb::run) ++count[static_cast<std::size_t>(action.index)];
  }
  std::vector<OpId> ops;
  for (OpId id = 0; id < graph.num_ops(); ++id) {
    if (graph.op(id).random && count[static_cast<std::size_t>(id)] > 1) ops.push_back(id);
  }
  return ops;
}

/// Of the arena's address in memory.
Bytes arena_alignment(const Graph& graph, const Plan& plan) {
  return plan.slower ? std::max(graph.alignment(), kCopyAlignment) : graph.alignment();
}

/// The bytes before all else that bring the arena, which follows so many bytes in use, to its
/// alignment.
Bytes lead_of(const Graph& graph, const Plan& plan, Bytes used) {
  return align_up(used, arena_alignment(graph, plan)) - used;
}

/// Of the states in the block.
Bytes state_bytes(const Graph& graph, const Plan& plan, const GeneratorStates& states) {
  if (states.on_host) return 0;
  return static_cast<Bytes>(ops_with_states(graph, plan).size()) *
         align_up(states.bytes, graph.alignment());
}

/// Places everything after the residents, which end at `end`.
void place_rest(const Graph& graph, const Plan& plan, Bytes end, const GeneratorStates& states,
                Bytes reserve_bytes, BlockMap& map) {
  map.generator_states.assign(static_cast<std::size_t>(graph.num_ops()), -1);
  for (OpId id : ops_with_states(graph, plan)) {
    Bytes& end_of_states = states.on_host ? map.host_state_bytes : end;
    map.generator_states[static_cast<std::size_t>(id)] = end_of_states;
    end_of_states += align_up(states.bytes, graph.alignment());
  }
  map.reserve = end;
  map.arena = end + reserve_bytes;
  map.end = map.arena + plan.layout.value().arena_bytes - staying_bytes(graph, plan);
}

/// Whether the bytes are those of the elements, each once.
bool is_dense(const Tensor& tensor) { return tensor.bytes == element_bytes(tensor); }

bool is_written(const Graph& graph, TensorId storage) {
  return std::ranges::any_of(graph.ops(), [&](const Op& op) {
    return std::ranges::any_of(op.mutates, [&](int position) {
      return graph.storage(op.inputs[static_cast<std::size_t>(position)]) == storage;
    });
  });
}

/// Appends the places as the last section.
void place_callers_tensors(const Graph& graph, BlockMap& map) {
  map.end = align_up(map.end, graph.alignment());
  const Bytes begin = map.end;
  map.foreign.assign(static_cast<std::size_t>(graph.num_tensors()), -1);
  for (TensorId id = 0; id < graph.num_tensors(); ++id) {
    const Tensor& tensor = graph.tensor(id);
    const bool foreign = is_foreign(tensor);
    if (!foreign && !has_place(graph, id)) continue;
    (foreign ? map.foreign : map.residents)[static_cast<std::size_t>(id)] = map.end;
    map.end += align_up(extent_bytes(tensor), graph.alignment());
  }
  if (begin > 0 && begin < map.end) map.cuts.push_back(begin);
}

}  // namespace

bool has_place(const Graph& graph, TensorId resident) {
  const Tensor& tensor = graph.tensor(resident);
  const bool is_brought = tensor.role == Role::input || tensor.role == Role::target;
  return tensor.kind == Kind::resident && tensor.alias_of == kNone && is_brought &&
         is_dense(tensor) && !is_written(graph, resident);
}

Bytes placed_bytes(const Graph& graph) {
  BlockMap map;
  map.residents.assign(static_cast<std::size_t>(graph.num_tensors()), -1);
  place_callers_tensors(graph, map);
  const Bytes most_before = graph.alignment() - 1;  // to where the places may begin
  return map.end == 0 ? 0 : most_before + map.end;
}

BlockMap map_block(const Graph& graph, const Plan& plan, const GeneratorStates& states,
                   Bytes reserve_bytes) {
  BlockMap map;
  map.lead = lead_of(graph, plan,
                     staying_bytes(graph, plan) + state_bytes(graph, plan, states) + reserve_bytes);
  Bytes end = map.lead;
  map.residents.assign(static_cast<std::size_t>(graph.num_tensors()), -1);
  for (TensorId id : residents_by_alignment(graph, plan)) {
    map.residents[static_cast<std::size_t>(id)] = end;
    end += graph.tensor(id).bytes;
  }
  place_rest(graph, plan, end, states, reserve_bytes, map);
  return map;
}

BlockMap map_arena(const Graph& graph, const Plan& plan, const GeneratorStates& states,
                   Places places) {
  BlockMap map;
  map.residents.assign(static_cast<std::size_t>(graph.num_tensors()), -1);
  place_rest(graph, plan, 0, states, 0, map);
  if (map.arena > 0) map.cuts.push_back(map.arena);
  const std::vector<Bytes>& borders = plan.layout->borders;
  for (Bytes border : borders) map.cuts.push_back(map.arena + border);
  if (layout::end_of_results(graph, graph.alignment()) > 0) {
    map.late_begin = map.arena;
    map.late_end = borders.empty() ? map.end : map.arena + borders.front();
  }
  if (places == Places::fixed) place_callers_tensors(graph, map);
  return map;
}

}  // namespace lowtide::runtime
