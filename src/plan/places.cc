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

}  // namespace lowtide
