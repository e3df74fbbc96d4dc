#include "offload/copies.h"

#include <algorithm>
#include <span>
#include <utility>

#include "plan/replay.h"
#include "plan/residents.h"

namespace lowtide::offload {
namespace {

/// Adds the copies that go to one place, which begins at `begin`, with their offsets. Returns where
/// it ends.
Bytes place_copies(std::span<const CopyLife> all, const Routes& routes, PlaceIndex place,
                   Bytes begin, std::vector<Copy>& copies) {
  std::vector<packing::Buffer> lives;
  const std::size_t before = copies.size();
  for (const CopyLife& copy : all) {
    if (routes.place_of(copy.storage) != place) continue;
    lives.push_back(copy.life);
    copies.push_back({copy.storage, begin});
  }
  const packing::Packing packed = packing::pack(lives, kCopyAlignment);
  Bytes end = begin;
  for (std::size_t i = 0; i < lives.size(); ++i) {
    copies[before + i].offset += packed.offsets[i];
    end = std::max(end, begin + packed.offsets[i] + lives[i].bytes);
  }
  return end;
}

}  // namespace

std::vector<CopyLife> lives_of_copies(const Graph& graph, const Plan& plan) {
  std::vector<std::int32_t> index(graph.tensors().size(), kNone);
  std::vector<CopyLife> lives;
  const std::vector<bool> of_resident = residents_away(graph, plan);
  const auto whole = static_cast<std::int32_t>(plan.actions.size());
  for (TensorId id = 0; id < graph.num_tensors(); ++id) {
    if (!of_resident[id]) continue;
    lives.push_back({id, {.begin = 0, .end = whole, .bytes = graph.tensor(id).bytes}});
  }
  for (std::size_t i = 0; i < plan.actions.size(); ++i) {
    const Action& action = plan.actions[i];
    if (!moves_values(action.verb)) continue;
    const TensorId storage = graph.storage(action.index);
    if (of_resident[storage]) continue;
    const auto now = static_cast<std::int32_t>(i);
    if (index[storage] == kNone) {
      index[storage] = static_cast<std::int32_t>(lives.size());
      lives.push_back({storage, {.begin = now, .bytes = graph.tensor(storage).bytes}});
    }
    lives[index[storage]].life.end = now;
  }
  return lives;
}

Plan with_copies(const Graph& graph, Plan plan, const Routes& routes) {
  SlowerMemory slower{.lanes = routes.lanes, .copies = {}, .second = routes.second};
  if (plan.slower) slower.residents = plan.slower->residents;
  const std::vector<CopyLife> lives = lives_of_copies(graph, plan);
  slower.bytes = place_copies(lives, routes, PlaceIndex::first, 0, slower.copies);
  if (slower.second) {
    slower.second->begin = slower.bytes;
    slower.bytes = place_copies(lives, routes, PlaceIndex::second, slower.bytes, slower.copies);
  }
  plan.slower.reset();
  if (!slower.copies.empty()) plan.slower = std::move(slower);
  const Replay replayed = replay(graph, plan);
  plan.cost = replayed.cost;
  plan.peak_bytes = replayed.peak_bytes;
  return plan;
}

}  // namespace lowtide::offload
