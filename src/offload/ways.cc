#include "offload/ways.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "offload/residents.h"
#include "plan/places.h"
#include "plan/replay.h"

namespace lowtide::offload {
namespace {

struct NamedWays {
  std::string_view strategy;  ///< as the user names it
  Ways ways;
  std::string_view in_plan;
};
constexpr auto kNames = std::to_array<NamedWays>({{"", Ways::both, "search+offload"},
                                                  {"search", Ways::rerun, "search"},
                                                  {"offload", Ways::move, "offload"},
                                                  {"save-on-cpu", Ways::save_on_cpu, "save-on-cpu"},
                                                  {"capuchin", Ways::capuchin, "capuchin"},
                                                  {"poet", Ways::poet, "poet"}});

Lane lane_of(const slower::Speed& speed) {
  constexpr double kMicroseconds = 1e6;
  return {speed.latency_seconds * kMicroseconds,
          speed.bytes_per_second > 0 ? kMicroseconds / speed.bytes_per_second : 0};
}

}  // namespace

Ways ways_of(std::string_view strategy) {
  const auto* found = std::ranges::find(kNames, strategy, &NamedWays::strategy);
  if (found != kNames.end()) return found->ways;
  throw InputError(
      fmt::format("the strategy {} does not know of slower memory; name search, which only reruns, "
                  "offload, which only moves, capuchin, poet or save-on-cpu, the methods of "
                  "others, or none for reruns and moves together",
                  strategy));
}

bool always_moves(std::string_view strategy) {
  const auto* found = std::ranges::find(kNames, strategy, &NamedWays::strategy);
  return found != kNames.end() && found->ways != Ways::both && found->ways != Ways::rerun;
}

std::string_view name(Ways ways) {
  return std::ranges::find(kNames, ways, &NamedWays::ways)->in_plan;
}

Bytes floor_of_moves(const Graph& graph, const Slower& slower) {
  const Bytes unmoved = structural_floor(graph).bytes;
  if (!slower.residents) return unmoved;
  const Bytes moved = structural_floor(graph, movable_residents(graph)).bytes;
  const Bytes least =
      slower.second ? std::min(slower.buffers, slower.second->buffers) : slower.buffers;
  return std::min(unmoved, moved + least);
}

bool Slower::has_room(const SlowerMemory& wanted) const {
  const auto fits = [](Bytes taken, std::optional<Bytes> limit) {
    return !limit || taken <= *limit;
  };
  const PlaceBytes taken = bytes_of_places(wanted);
  return fits(taken.first, bytes) && (!second || fits(taken.second, second->bytes));
}

std::optional<Bytes> Slower::all_bytes() const {
  if (!second) return bytes;
  if (!bytes || !second->bytes) return std::nullopt;
  return *bytes + *second->bytes;
}

Slower only_first(Slower slower) {
  slower.second.reset();
  return slower;
}

Slower only_second(const Slower& slower) {
  return {.lanes = slower.second->lanes,
          .bytes = slower.second->bytes,
          .residents = slower.residents,
          .buffers = slower.second->buffers};
}

Lanes lanes_of(const slower::LaneSpeed& speed) {
  return {lane_of(speed.out), lane_of(speed.in), speed.shared};
}

std::string describe(const Lanes& lanes) {
  const auto speed = [](const Lane& lane) {
    constexpr double kBytesPerMicrosecond = 1e-3;  // of one GB/s
    return lane.per_byte > 0 ? fmt::format("{:.2g} GB/s", kBytesPerMicrosecond / lane.per_byte)
                             : std::string("no limit");
  };
  return fmt::format("{} out, {} in{}", speed(lanes.out), speed(lanes.in),
                     lanes.shared ? ", one at a time" : "");
}

}  // namespace lowtide::offload
