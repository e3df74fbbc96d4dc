#include "packing/valley_search.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

namespace lowtide::packing {
namespace {

constexpr Bytes kNever = std::numeric_limits<Bytes>::max() / 4;
constexpr std::int64_t kNodesPerPoll = 64;

using ItemId = std::int32_t;
using CliqueId = std::int32_t;

/// Records changed numbers, so that backtracking restores them.
class Trail {
 public:
  void set(Bytes& variable, Bytes value) {
    changes_.emplace_back(&variable, variable);
    variable = value;
  }
  std::size_t mark() const { return changes_.size(); }
  void back_to(std::size_t mark) {
    for (; changes_.size() > mark; changes_.pop_back()) {
      *changes_.back().first = changes_.back().second;
    }
  }

 private:
  std::vector<std::pair<Bytes*, Bytes>> changes_;
};

struct Clique {
  Bytes floor = 0;     ///< unplaced items lie at or above it
  Bytes top = 0;       ///< of the last placed item; from there to the floor is waste
  Bytes last = -1;     ///< the last placed item
  Bytes unplaced = 0;  ///< bytes
  Bytes ready = 0;     ///< number of unplaced items that can lie on the floor
  Bytes links = 0;     ///< unplaced items shared with the next clique
  double weight = 1;   ///< grows with every failure
  std::vector<ItemId> members;
};

/// Cliques [first, last], both included.
struct Range {
  CliqueId first = 0, last = 0;
  bool meets(const Range& other) const { return first <= other.last && other.first <= last; }
};

/// A place on which the search branches.
struct Place {
  CliqueId clique = 0;
  Range valley;  ///< the connected cliques of the same floor
  Range part;    ///< the cliques that unplaced items connect with it
};

/// A choice of the item on the floor of a clique, or of none.
struct Choice {
  CliqueId clique;
  Range part;
  Bytes floor;
  Bytes without;  ///< the floor if no item does; kNever if one must
  std::size_t mark;
  std::size_t first_option, next_option, end_option;
  bool tried_without = false;
};

class ValleySearch {
 public:
  ValleySearch(const Instance& instance, Bytes capacity, const Guide& guide)
      : items_(instance.items),
        capacity_(capacity),
        guide_(guide),
        cliques_(static_cast<std::size_t>(instance.cliques)),
        queued_(cliques_.size(), false),
        placed_(items_.size(), 0),
        lowest_(items_.size(), 0),
        offsets_(items_.size(), 0) {
    for (std::size_t i = 0; i < items_.size(); ++i) {
      const Item& item = items_[i];
      for (CliqueId c = item.first; c <= item.last; ++c) {
        cliques_[c].members.push_back(static_cast<ItemId>(i));
        cliques_[c].unplaced += item.bytes;
        if (c < item.last) cliques_[c].links += 1;
      }
    }
    find_obstacles();
  }

  Attempt run(std::int64_t most_nodes, std::int64_t most_work, const Control& control) {
    Verdict verdict = start() ? Verdict::out_of_work : Verdict::impossible;
    bool goes_down = true;  // false: backtrack, since the last branch failed
    while (verdict == Verdict::out_of_work && nodes_ < most_nodes && work_ < most_work &&
           (nodes_ % kNodesPerPoll != 0 || !control.should_stop())) {
      ++nodes_;
      if (goes_down) {
        const auto place = next_place();
        if (!place) {
          verdict = Verdict::packed;
          break;
        }
        push(*place);
      }
      if (choices_.empty()) {
        verdict = Verdict::impossible;
      } else {
        goes_down = take_next_branch();
      }
    }
    return {verdict, verdict == Verdict::packed ? offsets_ : std::vector<Bytes>(), nodes_, work_};
  }

 private:
  /// Lists for each item the fixed items alive with it, lowest first.
  void find_obstacles() {
    std::vector<ItemId> fixed;
    for (std::size_t i = 0; i < items_.size(); ++i) {
      if (items_[i].fixed != Item::kFree) fixed.push_back(static_cast<ItemId>(i));
    }
    if (fixed.empty()) return;
    std::ranges::sort(fixed, {}, [&](ItemId i) { return items_[i].fixed; });
    obstacles_.resize(items_.size());
    for (std::size_t i = 0; i < items_.size(); ++i) {
      for (ItemId f : fixed) {
        if (f != static_cast<ItemId>(i) && range(f).meets(range(i))) obstacles_[i].push_back(f);
      }
    }
  }

  Range range(std::size_t item) const { return {items_[item].first, items_[item].last}; }

  /// The lowest offset >= `offset` that alignment, fixed offset and fixed items allow.
  Bytes allowed(ItemId i, Bytes offset) const {
    const Item& item = items_[i];
    if (item.fixed != Item::kFree) return offset <= item.fixed ? item.fixed : kNever;
    if (item.alignment > 1) offset = align_up(offset, item.alignment);
    if (obstacles_.empty()) return offset;
    for (ItemId f : obstacles_[i]) {
      const Item& obstacle = items_[f];
      if (offset < obstacle.fixed + obstacle.bytes && obstacle.fixed < offset + item.bytes) {
        offset = align_up(obstacle.fixed + obstacle.bytes, item.alignment);
      }
    }
    return offset;
  }

  bool start() {
    for (std::size_t i = 0; i < items_.size(); ++i) {
      lowest_[i] = allowed(static_cast<ItemId>(i), 0);
      if (lowest_[i] + items_[i].bytes > capacity_) return false;
    }
    for (std::size_t c = 0; c < cliques_.size(); ++c) enqueue(static_cast<CliqueId>(c));
    return propagate();
  }

  // Propagation

  void enqueue(CliqueId c) {
    if (queued_[c]) return;
    queued_[c] = true;
    queue_.push_back(c);
  }

  bool fail(CliqueId c) {
    cliques_[c].weight += 1;
    for (CliqueId other : queue_) queued_[other] = false;
    queue_.clear();
    return false;
  }

  /// Raises floors and lowest offsets until they agree; false when an item does not fit.
  bool propagate() {
    for (std::size_t next = 0; next < queue_.size(); ++next) {  // first come, first served
      const CliqueId c = queue_[next];
      queued_[c] = false;
      if (cliques_[c].unplaced > 0 && !settle(c)) return fail(c);
    }
    queue_.clear();
    return true;
  }

  bool settle(CliqueId c) {
    Clique& clique = cliques_[c];
    Bytes lowest = kNever, ready = 0;
    work_ += static_cast<std::int64_t>(clique.members.size());
    for (ItemId i : clique.members) {
      if (placed_[i]) continue;
      if (lowest_[i] < clique.floor && !raise(i, clique.floor, c)) return false;
      if (lowest_[i] < lowest) {
        lowest = lowest_[i];
        ready = 0;
      }
      ready += lowest_[i] == lowest;
    }
    if (ready != clique.ready) trail_.set(clique.ready, ready);
    if (lowest > clique.floor) trail_.set(clique.floor, lowest);
    return clique.floor + clique.unplaced <= capacity_ && !leaves_a_gap(clique);
  }

  /// A clique needs an update only if the item was among its lowest.
  bool raise(ItemId i, Bytes floor, CliqueId from) {
    const Bytes before = lowest_[i], offset = allowed(i, floor);
    if (offset + items_[i].bytes > capacity_) return false;
    trail_.set(lowest_[i], offset);
    for (CliqueId c = items_[i].first; c <= items_[i].last; ++c) {
      if (c != from && before <= cliques_[c].floor) enqueue(c);
    }
    return true;
  }

  /// Whether an unplaced item of the clique fits into the waste between tops and floors.
  bool leaves_a_gap(const Clique& clique) {
    const Bytes gap = clique.floor - clique.top;
    if (gap == 0) return false;
    return std::ranges::any_of(clique.members, [&](ItemId i) {
      return items_[i].bytes <= gap && !placed_[i] && items_[i].fixed == Item::kFree &&
             fits_in_waste(items_[i]);
    });
  }

  bool fits_in_waste(const Item& item) {
    Bytes top = 0, floor = kNever;
    for (CliqueId c = item.first; c <= item.last; ++c) {
      ++work_;
      top = std::max(top, align_up(cliques_[c].top, item.alignment));
      floor = std::min(floor, cliques_[c].floor);
      if (top + item.bytes > floor) return false;
    }
    return true;
  }

  /// Precondition: the floor is level over the item's life.
  bool place(ItemId i, Bytes offset) {
    const Item& item = items_[i];
    trail_.set(placed_[i], 1);
    offsets_[i] = offset;
    const Bytes top = offset + item.bytes;
    for (CliqueId c = item.first; c <= item.last; ++c) {
      Clique& clique = cliques_[c];
      trail_.set(clique.unplaced, clique.unplaced - item.bytes);
      trail_.set(clique.top, top);
      trail_.set(clique.floor, top);
      trail_.set(clique.last, i);
      if (c < item.last) trail_.set(clique.links, clique.links - 1);
      enqueue(c);
    }
    return propagate();
  }

  bool leave_bare(const Choice& choice) {
    trail_.set(cliques_[choice.clique].floor, choice.without);
    enqueue(choice.clique);
    return propagate();
  }

  // Next place

  /// Returns nothing when all items are placed. Searches parts in order of time.
  std::optional<Place> next_place() {
    CliqueId first = 0;
    const auto end = static_cast<CliqueId>(cliques_.size());
    while (first < end && cliques_[first].unplaced == 0) ++first;
    if (first == end) return std::nullopt;
    Range part{first, first};
    while (part.last + 1 < end && cliques_[part.last].links > 0) ++part.last;
    work_ += part.last - part.first + 1;
    return best_of(part);
  }

  Place best_of(const Range& part) const {
    std::optional<Place> best;
    Score least{};
    for (Range valley{part.first, part.first}; valley.first <= part.last;
         valley.first = valley.last + 1) {
      const Bytes floor = cliques_[valley.first].floor;
      valley.last = valley.first;
      while (valley.last < part.last && cliques_[valley.last + 1].floor == floor) ++valley.last;
      const bool wall_before =
          valley.first == part.first || cliques_[valley.first - 1].floor > floor;
      const bool wall_after = valley.last == part.last || cliques_[valley.last + 1].floor > floor;
      if (!wall_before || !wall_after) continue;
      for (CliqueId c = valley.first; c <= valley.last; ++c) {
        const Score score = score_of(cliques_[c]);
        if (!best || score < least) {
          best = {c, valley, part};
          least = score;
        }
      }
    }
    return *best;
  }

  using Score = std::pair<Bytes, double>;  // smaller is better

  Score score_of(const Clique& clique) const {
    constexpr Bytes kSomeRoom = 50;  // share of the capacity; softens zero slack
    const Bytes room = capacity_ - clique.floor - clique.unplaced;
    const auto options = static_cast<double>(clique.ready + (room > 0));
    const double tight = static_cast<double>(room) / clique.weight;
    const double few = options / clique.weight;
    switch (guide_.rule) {
      case ValleyRule::tight: return {0, tight};
      case ValleyRule::few: return {0, few};
      case ValleyRule::tight_and_few:
        return {0, few * static_cast<double>(room + capacity_ / kSomeRoom)};
      case ValleyRule::lowest_tight: return {clique.floor, tight};
      case ValleyRule::lowest_few: return {clique.floor, few};
    }
    return {};
  }

  // Choices

  void push(const Place& place) {
    const Clique& clique = cliques_[place.clique];
    Choice choice{place.clique,  place.part,      clique.floor,    floor_without(place),
                  trail_.mark(), options_.size(), options_.size(), options_.size()};
    for (ItemId i : clique.members) {
      if (!placed_[i] && lowest_[i] == clique.floor && !lies_on_smaller(i, clique) &&
          !is_equal_to_option(i, choice.first_option)) {
        options_.push_back(i);
      }
    }
    choice.end_option = options_.size();
    std::sort(options_.begin() + static_cast<std::ptrdiff_t>(choice.first_option), options_.end(),
              [&](ItemId a, ItemId b) {
                return std::pair(-guide_.preference[a], a) < std::pair(-guide_.preference[b], b);
              });
    choices_.push_back(choice);
  }

  /// Whether the item would lie on a smaller one of the same life: the reverse is as good.
  bool lies_on_smaller(ItemId i, const Clique& clique) const {
    if (clique.last < 0 || clique.top != clique.floor) return false;
    const Item &above = items_[i], &below = items_[clique.last];
    return below.bytes < above.bytes && below.first == above.first && below.last == above.last &&
           below.fixed == Item::kFree && above.fixed == Item::kFree && below.alignment == 1 &&
           above.alignment == 1;
  }

  bool is_equal_to_option(ItemId i, std::size_t first_option) const {
    const Item& item = items_[i];
    return item.fixed == Item::kFree &&
           std::any_of(options_.begin() + static_cast<std::ptrdiff_t>(first_option), options_.end(),
                       [&](ItemId j) {
                         const Item& other = items_[j];
                         return other.fixed == Item::kFree && other.first == item.first &&
                                other.last == item.last && other.bytes == item.bytes &&
                                other.alignment == item.alignment;
                       });
  }

  /// The lowest offset of any item of the clique if none lies on the floor. Every item rests on the
  /// ground, on a placed item (then at its lowest offset), or on an unplaced item; here, on one of
  /// the valley that is not in the clique.
  Bytes floor_without(const Place& place) {
    const Clique& clique = cliques_[place.clique];
    Bytes lowest = kNever;
    for (ItemId i : clique.members) {
      if (!placed_[i] && lowest_[i] > clique.floor) lowest = std::min(lowest, lowest_[i]);
    }
    for (CliqueId c = place.valley.first; c <= place.valley.last; ++c) {
      const auto& members = cliques_[c].members;
      work_ += static_cast<std::int64_t>(members.size());
      for (ItemId i : members) {
        const bool meets = range(i).meets({place.clique, place.clique});
        if (!placed_[i] && !meets) lowest = std::min(lowest, lowest_[i] + items_[i].bytes);
      }
    }
    return lowest;
  }

  /// Takes the next branch of the last choice; false if it fails at once or no branch is left.
  bool take_next_branch() {
    Choice& choice = choices_.back();
    trail_.back_to(choice.mark);
    if (choice.next_option < choice.end_option) {
      return place(options_[choice.next_option++], choice.floor);
    }
    if (!choice.tried_without && choice.without < kNever) {
      choice.tried_without = true;
      return leave_bare(choice);
    }
    give_up(choice.part);
    return false;
  }

  /// Backtracks to the last choice of this part, past choices of unconnected parts.
  void give_up(Range part) {
    do {
      trail_.back_to(choices_.back().mark);
      options_.resize(choices_.back().first_option);
      choices_.pop_back();
    } while (!choices_.empty() && !choices_.back().part.meets(part));
  }

  const std::vector<Item>& items_;
  const Bytes capacity_;
  const Guide& guide_;
  std::vector<Clique> cliques_;
  std::vector<CliqueId> queue_;
  std::vector<bool> queued_;                    // per clique
  std::vector<std::vector<ItemId>> obstacles_;  // per item; empty without fixed items
  std::vector<Bytes> placed_;                   // per item: 1 if placed
  std::vector<Bytes> lowest_;                   // per unplaced item: its lowest possible offset
  std::vector<Bytes> offsets_;                  // per placed item
  std::vector<Choice> choices_;
  std::vector<ItemId> options_;  // of all choices, one after the other
  Trail trail_;
  std::int64_t nodes_ = 0;
  std::int64_t work_ = 0;
};

}  // namespace

Attempt search_valleys(const Instance& instance, Bytes capacity, const Guide& guide,
                       std::int64_t most_nodes, std::int64_t most_work, const Control& control) {
  return ValleySearch(instance, capacity, guide).run(most_nodes, most_work, control);
}

}  // namespace lowtide::packing
