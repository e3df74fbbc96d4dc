#include "packing/stacking.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <ranges>
#include <utility>

namespace lowtide::packing {

Stacking::Stacking(const Instance& instance, const std::vector<Bytes>& offsets)
    : items_(instance.items),
      offsets_(items_.size()),
      reaches_(items_.size()),
      below_(items_.size()),
      above_(items_.size()) {
  stack(offsets);
}

void Stacking::stack(const std::vector<Bytes>& offsets) {
  std::vector<ItemId> order(items_.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](ItemId i) { return offsets[i]; });
  find_all_contacts(order, below_);
  find_all_contacts(order | std::views::reverse, above_);
  levels_.clear();
  for (const ItemId i : order) levels_.push_back({items_[i].first, items_[i].last, 0, 0, i});
  offset_is_old_.assign(items_.size(), true);
  reach_is_old_.assign(items_.size(), true);
  first_changed_ = 0;
  end_changed_ = levels_.size();
  settle();
}

/// Visits items in `order`: the last item visited over a clique is the neighbour of the next one.
template <typename Order>
void Stacking::find_all_contacts(Order&& order, std::vector<Contacts>& contacts) {
  std::map<std::int32_t, ItemId> last_from{{0, kNone}};  // from this clique to the next key
  for (const ItemId i : order) {
    const auto [first, last] = std::pair(items_[i].first, items_[i].last);
    const auto split_at = [&](std::int32_t clique) {
      const auto before = std::prev(last_from.upper_bound(clique));
      return last_from.try_emplace(clique, before->second).first;
    };
    const auto end = split_at(last + 1);
    const auto begin = split_at(first);
    contacts[i].clear();
    for (auto at = begin; at != end; ++at) {
      append(contacts[i], {at->first, std::next(at)->first - 1, at->second});
    }
    last_from.erase(begin, end);
    last_from.emplace(first, i);
    work_ += static_cast<std::int64_t>(8 * contacts[i].size());
  }
}

std::size_t Stacking::remove(ItemId item) {
  for (const Contact& contact : below_[item]) {
    if (contact.item != kNone) replace(above_[contact.item], item, above_[item]);
  }
  for (const Contact& contact : above_[item]) {
    if (contact.item != kNone) replace(below_[contact.item], item, below_[item]);
  }
  touch(above_[item], offset_is_old_);
  touch(below_[item], reach_is_old_);
  const auto level = std::ranges::find(levels_, item, &Level::id);
  const auto place = static_cast<std::size_t>(levels_.erase(level) - levels_.begin());
  first_changed_ = std::min(first_changed_, place);
  end_changed_ = std::max(end_changed_, place);
  return place;
}

void Stacking::insert(ItemId item, std::size_t place) {
  const std::span<const Level> levels = levels_;
  find_contacts(item, levels.first(place) | std::views::reverse, below_[item]);
  find_contacts(item, levels.subspan(place), above_[item]);
  for (const Contact& c : below_[item]) {
    if (c.item != kNone) cover(above_[c.item], {c.first, c.last, item});
  }
  for (const Contact& c : above_[item]) {
    if (c.item != kNone) cover(below_[c.item], {c.first, c.last, item});
  }
  offset_is_old_[item] = reach_is_old_[item] = true;
  touch(above_[item], offset_is_old_);
  touch(below_[item], reach_is_old_);
  levels_.insert(levels_.begin() + static_cast<std::ptrdiff_t>(place),
                 {items_[item].first, items_[item].last, 0, 0, item});
  first_changed_ = std::min(first_changed_, place);
  end_changed_ = std::max(end_changed_, place + 1);
}

void Stacking::settle() {
  settle_offsets();
  settle_reaches();
  sort_levels();
  first_changed_ = levels_.size();
  end_changed_ = 0;
}

void Stacking::append(Contacts& contacts, const Contact& contact) {
  const bool goes_on = !contacts.empty() && contacts.back().item == contact.item &&
                       contacts.back().last + 1 == contact.first;
  if (goes_on) {
    contacts.back().last = contact.last;
  } else {
    contacts.push_back(contact);
  }
}

void Stacking::append_within(Contacts& contacts, const Contacts& from, const Contact& range) {
  for (const Contact& c : from) {
    const std::int32_t first = std::max(c.first, range.first);
    const std::int32_t last = std::min(c.last, range.last);
    if (first <= last) append(contacts, {first, last, c.item});
  }
}

/// Replaces contacts with `item` by its own contacts on the far side.
void Stacking::replace(Contacts& contacts, ItemId item, const Contacts& by) {
  scratch_.clear();
  for (const Contact& c : contacts) {
    if (c.item == item) {
      append_within(scratch_, by, c);
    } else {
      append(scratch_, c);
    }
  }
  work_ += static_cast<std::int64_t>(contacts.size() + by.size());
  std::swap(contacts, scratch_);
}

/// Makes another item the contact over one range.
void Stacking::cover(Contacts& contacts, const Contact& by) {
  scratch_.clear();
  bool is_done = false;
  for (const Contact& c : contacts) {
    if (c.first < by.first) append(scratch_, {c.first, std::min(c.last, by.first - 1), c.item});
    if (c.last >= by.first && !std::exchange(is_done, true)) append(scratch_, by);
    if (c.last > by.last) append(scratch_, {std::max(c.first, by.last + 1), c.last, c.item});
  }
  work_ += static_cast<std::int64_t>(contacts.size());
  std::swap(contacts, scratch_);
}

/// Finds the first level over each clique of the item's life; `levels` lists them from near to far.
template <typename Levels>
void Stacking::find_contacts(ItemId item, Levels levels, Contacts& contacts) {
  const Item& mine = items_[item];
  scratch_.clear();
  open_.assign(1, {mine.first, mine.last, kNone});
  for (const Level& level : levels) {
    ++work_;
    if (level.last < mine.first || mine.last < level.first) continue;
    still_open_.clear();
    for (const Contact& gap : open_) {
      const std::int32_t first = std::max(gap.first, level.first);
      const std::int32_t last = std::min(gap.last, level.last);
      if (first > last) {
        still_open_.push_back(gap);
        continue;
      }
      scratch_.push_back({first, last, level.id});
      if (gap.first < first) still_open_.push_back({gap.first, first - 1, kNone});
      if (last < gap.last) still_open_.push_back({last + 1, gap.last, kNone});
    }
    std::swap(open_, still_open_);
    if (open_.empty()) break;
  }
  scratch_.insert(scratch_.end(), open_.begin(), open_.end());
  std::ranges::sort(scratch_, {}, &Contact::first);
  contacts.clear();
  for (const Contact& c : scratch_) append(contacts, c);
}

void Stacking::touch(const Contacts& contacts, std::vector<char>& is_old) {
  for (const Contact& c : contacts) {
    if (c.item != kNone) is_old[c.item] = true;
  }
}

/// From the bottom up; recomputes only items whose support moved.
void Stacking::settle_offsets() {
  for (std::size_t place = first_changed_; place < levels_.size(); ++place) {
    Level& level = levels_[place];
    if (!std::exchange(offset_is_old_[level.id], false)) continue;
    Bytes offset = 0;
    for (const Contact& c : below_[level.id]) {
      if (c.item != kNone) offset = std::max(offset, offsets_[c.item] + items_[c.item].bytes);
    }
    work_ += static_cast<std::int64_t>(below_[level.id].size());
    level.top = offset + items_[level.id].bytes;
    if (std::exchange(offsets_[level.id], offset) != offset) {
      touch(above_[level.id], offset_is_old_);
    }
  }
}

/// From the top down; recomputes only items under a changed reach.
void Stacking::settle_reaches() {
  for (std::size_t place = end_changed_; place-- > 0;) {
    Level& level = levels_[place];
    if (!std::exchange(reach_is_old_[level.id], false)) continue;
    Bytes above = 0;
    for (const Contact& c : above_[level.id]) {
      if (c.item != kNone) above = std::max(above, reaches_[c.item]);
    }
    work_ += static_cast<std::int64_t>(above_[level.id].size());
    level.reach = items_[level.id].bytes + above;
    if (std::exchange(reaches_[level.id], level.reach) != level.reach) {
      touch(below_[level.id], reach_is_old_);
    }
  }
}

/// An item has a larger offset than its support, so the order of offsets is a bottom-up order.
/// Insertion sort, since the levels are nearly sorted.
void Stacking::sort_levels() {
  const auto offset = [&](const Level& level) { return offsets_[level.id]; };
  for (std::size_t i = std::max<std::size_t>(first_changed_, 1); i < levels_.size(); ++i) {
    if (offset(levels_[i - 1]) <= offset(levels_[i])) continue;
    const Level level = levels_[i];
    std::size_t place = i;
    for (; place > 0 && offset(levels_[place - 1]) > offset(level); --place) {
      levels_[place] = levels_[place - 1];
    }
    levels_[place] = level;
  }
  height_ = 0;
  for (const Level& level : levels_) height_ = std::max(height_, level.top);
  work_ += static_cast<std::int64_t>(levels_.size());
}

}  // namespace lowtide::packing
