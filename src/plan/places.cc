#include "plan/places.h"

namespace lowtide {

PlaceLanes lanes_of_places(const Plan& plan) {
  if (!plan.slower) return {};
  return {plan.slower->lanes, plan.slower->second ? plan.slower->second->lanes : Lanes{}};
}

std::vector<PlaceIndex> places_of_copies(const Graph& graph, const Plan& plan) {
  std::vector<PlaceIndex> places(graph.tensors().size(), PlaceIndex::first);
  if (!plan.slower || !plan.slower->second) return places;
  for (const Copy& copy : plan.slower->copies) {
    const bool is_tensor = copy.storage >= 0 && copy.storage < graph.num_tensors();
    const bool is_second = copy.offset >= plan.slower->second->begin;
    if (is_tensor && is_second) places[copy.storage] = PlaceIndex::second;
  }
  return places;
}

PlaceBytes bytes_of_places(const SlowerMemory& slower) {
  if (!slower.second) return {slower.bytes, 0};
  return {slower.second->begin, slower.bytes - slower.second->begin};
}

PlaceTimes times_of_copies(const Graph& graph, const Plan& plan) {
  const PlaceLanes lanes = lanes_of_places(plan);
  const std::vector<PlaceIndex> places = places_of_copies(graph, plan);
  PlaceTimes times;
  for (const Action& action : plan.actions) {
    if (action.verb != Verb::offload && action.verb != Verb::prefetch) continue;
    const TensorId storage = graph.storage(action.index);
    const Lanes& of_place = lanes.of(places[storage]);
    const Lane& lane = action.verb == Verb::offload ? of_place.out : of_place.in;
    (places[storage] == PlaceIndex::first ? times.first : times.second) +=
        lane.time(graph.tensor(storage).bytes);
  }
  return times;
}

}  // namespace lowtide
