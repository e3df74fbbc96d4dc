#include "packing/tied.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "packing/body_greedy.h"

namespace lowtide::packing {
namespace {

/// One list of buffers per name, in order, and one list for each buffer without a name.
std::vector<std::vector<std::int32_t>> sorted_by(const std::vector<std::string>& names,
                                                 std::size_t count) {
  std::vector<std::vector<std::int32_t>> lists;
  std::map<std::string_view, std::size_t> known;
  for (std::size_t i = 0; i < count; ++i) {
    std::size_t list = lists.size();
    if (!names.empty() && !names[i].empty()) list = known.emplace(names[i], list).first->second;
    if (list == lists.size()) lists.emplace_back();
    lists[list].push_back(static_cast<std::int32_t>(i));
  }
  return lists;
}

/// Fixes the body's offset so that its member is at `offset`.
void fix(Body& body, std::int32_t member, Bytes offset) {
  if (offset < 0 || body.block.fixed.value_or(offset) != offset) {
    throw InputError(fmt::format(
        "buffer {}: its fixed offset contradicts those that it is tied to; fix one of them.",
        member));
  }
  body.block.fixed = offset;
}

/// `stacked`: members adjacent in order; else all at one offset.
Body body_of(const std::vector<Buffer>& buffers, std::vector<std::int32_t> members, bool stacked,
             Bytes alignment) {
  Body body{std::move(members), {}, {}};
  bool lives = false;
  for (std::int32_t i : body.members) {
    const Buffer& buffer = buffers[i];
    const Bytes top = stacked ? body.block.bytes : 0;
    const Bytes inner = align_up(top, std::max(alignment, buffer.alignment));
    body.inner.push_back(inner);
    body.block.bytes = std::max(body.block.bytes, inner + buffer.bytes);
    body.block.alignment = std::max(body.block.alignment, buffer.alignment);
    if (buffer.fixed) fix(body, i, *buffer.fixed - inner);
    if (!takes_room(buffer)) continue;
    body.block.begin = lives ? std::min(body.block.begin, buffer.begin) : buffer.begin;
    body.block.end = lives ? std::max(body.block.end, buffer.end) : buffer.end;
    lives = true;
  }
  return body;
}

std::vector<Body> bodies_of(const std::vector<Buffer>& buffers,
                            const std::vector<std::string>& names, bool stacked, Bytes alignment) {
  std::vector<Body> bodies;
  for (auto& members : sorted_by(names, buffers.size())) {
    bodies.push_back(body_of(buffers, std::move(members), stacked, alignment));
  }
  return bodies;
}

std::vector<Buffer> blocks_of(const std::vector<Body>& bodies) {
  std::vector<Buffer> blocks;
  for (const Body& body : bodies) blocks.push_back(body.block);
  return blocks;
}

/// The offsets of all members, given the offsets of their bodies.
std::vector<Bytes> spread(const std::vector<Body>& bodies, const std::vector<Bytes>& offsets,
                          std::size_t count) {
  std::vector<Bytes> result(count);
  for (std::size_t b = 0; b < bodies.size(); ++b) {
    for (std::size_t m = 0; m < bodies[b].members.size(); ++m) {
      result[bodies[b].members[m]] = offsets[b] + bodies[b].inner[m];
    }
  }
  return result;
}

/// Groups of buffers without other ties.
class Grouped {
 public:
  Grouped(const std::vector<Buffer>& buffers, const std::vector<std::string>& groups,
          const PackingGoal& goal, const Control& control)
      : buffers_(buffers),
        bodies_(bodies_of(buffers, groups, true, goal.alignment)),
        goal_(goal),
        control_(control) {}

  SolvedPacking solve() {
    const SolvedPacking as_blocks = solve_packing(blocks_of(bodies_), goal_, control_);
    SolvedPacking best{spread_over(as_blocks), as_blocks.lower_bound};
    if (are_even()) return best;
    best.lower_bound = packing_lower_bound(buffers_, goal_.alignment);
    improve(best, as_blocks.packing.offsets);
    improve(best, greedy_bodies(buffers_, bodies_, goal_, control_));
    return best;
  }

 private:
  Packing spread_over(const SolvedPacking& solved) const {
    return {spread(bodies_, solved.packing.offsets, buffers_.size()), solved.packing.height};
  }

  /// Whether all members of each group live equally long.
  bool are_even() const {
    return std::ranges::all_of(bodies_, [&](const Body& body) {
      return std::ranges::all_of(body.members, [&](std::int32_t i) {
        const Buffer& buffer = buffers_[i];
        const bool fills = buffer.begin == body.block.begin && buffer.end == body.block.end;
        return fills || !takes_room(buffer);
      });
    });
  }

  /// Packs the other buffers around the groups' members, fixed at these offsets.
  void improve(SolvedPacking& best, const std::vector<Bytes>& offsets) const {
    if (best.proven()) return;
    std::vector<Buffer> pinned = buffers_;
    for (std::size_t b = 0; b < bodies_.size(); ++b) {
      const Body& body = bodies_[b];
      for (std::size_t m = 0; body.members.size() > 1 && m < body.members.size(); ++m) {
        pinned[body.members[m]].fixed = offsets[b] + body.inner[m];
      }
    }
    Packing packing = solve_packing(pinned, goal_, control_).packing;
    if (packing.height < best.packing.height) best.packing = std::move(packing);
  }

  const std::vector<Buffer>& buffers_;
  std::vector<Body> bodies_;
  const PackingGoal& goal_;
  const Control& control_;
};

/// The group of each body. Throws when its members have different groups.
std::vector<std::string> groups_of(const std::vector<Body>& bodies,
                                   const std::vector<std::string>& groups) {
  std::vector<std::string> result;
  if (groups.empty()) return result;
  for (const Body& body : bodies) {
    const std::string& group = groups[body.members.front()];
    for (std::int32_t i : body.members) {
      if (groups[i] == group) continue;
      throw InputError(
          fmt::format("buffers {} and {} share an offset, but not their group; put both into one.",
                      body.members.front(), i));
    }
    result.push_back(group);
  }
  return result;
}

}  // namespace

SolvedPacking solve_tied_packing(const std::vector<Buffer>& buffers, const Ties& ties,
                                 const PackingGoal& goal, const Control& control) {
  if (ties.empty()) return solve_packing(buffers, goal, control);
  const std::vector<Body> sharing = bodies_of(buffers, ties.same, false, goal.alignment);
  const std::vector<std::string> groups = groups_of(sharing, ties.groups);
  const std::vector<Buffer> blocks = blocks_of(sharing);
  SolvedPacking solved = Grouped(blocks, groups, goal, control).solve();
  solved.packing.offsets = spread(sharing, solved.packing.offsets, buffers.size());
  return solved;
}

}  // namespace lowtide::packing
