#include "offload/division.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "offload/schedule.h"
#include "offload/waits.h"
#include "plan/places.h"

namespace lowtide::offload {
namespace {

/// How often the first place is filled less, when its copies have gaps between them.
constexpr int kFillTries = 3;
/// Nanoseconds of counted work: for an action in the life of a copy.
constexpr double kPerActionOfLife = 1;

/// Bytes in use in the first place, by action of a plan.
class FirstPlaceUse {
 public:
  FirstPlaceUse(std::size_t actions, Bytes room, const Control& control)
      : used_(actions + 1), room_(room), control_(control) {}

  /// Takes the bytes for the life of the copy, if there is room.
  bool take(const packing::Buffer& life) {
    const Bytes bytes = align_up(life.bytes, kCopyAlignment);
    const std::span<Bytes> during =
        std::span(used_).subspan(at(life.begin), at(life.end - life.begin + 1));
    control_.count(kPerActionOfLife * static_cast<double>(during.size()));
    if (bytes > room_ || std::ranges::max(during) > room_ - bytes) return false;
    for (Bytes& used : during) used += bytes;
    return true;
  }

 private:
  std::vector<Bytes> used_;
  const Bytes room_;
  const Control& control_;
};

/// Looks for the best division of copies between two places.
class CopyDivision {
 public:
  CopyDivision(const Graph& graph, const LoadGraph& loads, const Plan& plan, const Slower& slower,
               Bytes budget, std::span<const double> hurries, const Control& control)
      : graph_(graph),
        loads_(loads),
        plan_(plan),
        slower_(slower),
        budget_(budget),
        hurries_(hurries),
        control_(control) {}

  Plan find() {
    offer(scheduled(routes_of(slower_, graph_)));
    if (!best_.slower) return std::move(best_);
    try_order(by_time_away(lives_of_copies(graph_, best_)));
    try_share();
    try_order(by_waits(lives_of_copies(graph_, best_)));
    return std::move(best_);
  }

 private:
  using Lives = std::vector<CopyLife>;

  Plan scheduled(const Routes& routes) const {
    return schedule(graph_, loads_, plan_, routes, budget_, hurries_, control_);
  }

  bool has_room(const Plan& plan) const { return !plan.slower || slower_.has_room(*plan.slower); }

  void offer(Plan plan) {
    const bool is_first = best_.actions.empty();
    const bool fits = has_room(plan), best_fits = has_room(best_);
    const bool is_better = fits == best_fits ? plan.cost < best_.cost : fits;
    if (is_first || is_better) best_ = std::move(plan);
  }

  /// Fills the first place in this order of copies of the best plan.
  void try_order(const Lives& order) {
    try_filled([&](FirstPlaceUse& use, Routes& routes) {
      for (const CopyLife& copy : order) {
        if (use.take(copy.life)) routes.places[at(copy.storage)] = PlaceIndex::first;
      }
    });
  }

  /// Puts so much into each place that their lanes take the same time, in the order in which copies
  /// begin.
  void try_share() {
    const Lives lives = lives_of_copies(graph_, best_);
    const double first = time_per_byte(slower_.lanes),
                 second = time_per_byte(slower_.second->lanes);
    const double share = first + second > 0 ? second / (first + second) : 0.5;
    try_filled([&](FirstPlaceUse& use, Routes& routes) {
      double wanted = 0;  // bytes that the first place lacks of its share
      for (const CopyLife& copy : lives) {
        const auto bytes = static_cast<double>(copy.life.bytes);
        wanted += share * bytes;
        if (wanted < bytes / 2 || !use.take(copy.life)) continue;
        wanted -= bytes;
        routes.places[at(copy.storage)] = PlaceIndex::first;
      }
    });
  }

  static double time_per_byte(const Lanes& lanes) { return lanes.out.per_byte + lanes.in.per_byte; }

  /// Copies have other lives in another schedule, and gaps between them: then with less. The last
  /// copy may end between pages.
  template <typename Fill>
  void try_filled(const Fill& fill) {
    Bytes room = slower_.bytes ? align_up(*slower_.bytes, kCopyAlignment)
                               : std::numeric_limits<Bytes>::max();
    const std::size_t actions = best_.actions.size();
    for (int tries = 0; tries < kFillTries && room > 0; ++tries) {
      Routes routes = routes_of(slower_, graph_);
      FirstPlaceUse use(actions, room, control_);
      fill(use, routes);
      Plan plan = scheduled(routes);
      const Bytes taken = plan.slower ? bytes_of_places(*plan.slower).first : 0;
      const Bytes excess = slower_.bytes ? taken - *slower_.bytes : 0;
      offer(std::move(plan));
      if (excess <= 0) return;
      room -= align_up(excess, kCopyAlignment);
    }
  }

  /// Those that are away for the shortest time first.
  static Lives by_time_away(Lives lives) {
    std::ranges::stable_sort(lives, {},
                             [](const CopyLife& copy) { return copy.life.end - copy.life.begin; });
    return lives;
  }

  /// Those that the plan waits for the longest first, and then those that lie in the first place.
  Lives by_waits(Lives lives) const {
    const std::vector<double> waited = time_of_waits(graph_, best_);
    const std::vector<PlaceIndex> places = places_of_copies(graph_, best_);
    std::ranges::stable_sort(lives, std::ranges::greater{}, [&](const CopyLife& copy) {
      return std::pair(waited[at(copy.storage)], places[at(copy.storage)] == PlaceIndex::first);
    });
    return lives;
  }

  const Graph& graph_;
  const LoadGraph& loads_;
  const Plan& plan_;
  const Slower& slower_;
  const Bytes budget_;
  const std::span<const double> hurries_;
  const Control& control_;
  Plan best_;
};

}  // namespace

Routes routes_of(const Slower& slower, const Graph& graph) {
  if (!slower.second) return {slower.lanes};
  return {.lanes = slower.lanes,
          .second = SecondPlace{.lanes = slower.second->lanes,
                                .first_budget = slower.bytes,
                                .budget = slower.second->bytes},
          .places = std::vector(graph.tensors().size(), PlaceIndex::second)};
}

Plan schedule_in_places(const Graph& graph, const LoadGraph& loads, const Plan& plan,
                        const Slower& slower, Bytes budget, std::span<const double> hurries,
                        const Control& control) {
  if (!slower.second) return schedule(graph, loads, plan, {slower.lanes}, budget, hurries, control);
  return CopyDivision(graph, loads, plan, slower, budget, hurries, control).find();
}

}  // namespace lowtide::offload
