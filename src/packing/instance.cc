#include "packing/instance.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

namespace lowtide::packing {
namespace {

/// The begins followed by an end before the next begin: there the set of live buffers is maximal.
std::vector<std::int32_t> clique_times(const std::vector<Buffer>& buffers,
                                       const std::vector<std::int32_t>& chosen) {
  std::vector<std::int32_t> begins, ends;
  for (std::int32_t i : chosen) {
    begins.push_back(buffers[i].begin);
    ends.push_back(buffers[i].end);
  }
  std::ranges::sort(begins);
  std::ranges::sort(ends);
  std::vector<std::int32_t> times;
  auto end = ends.begin();
  for (auto begin = begins.begin(); begin != begins.end();) {
    const std::int32_t time = *begin;
    begin = std::upper_bound(begin, begins.end(), time);
    end = std::upper_bound(end, ends.end(), time);
    if (begin == begins.end() || *end <= *begin) times.push_back(time);
  }
  return times;
}

/// Alignments that divide the unit hold at every offset.
void drop_trivial_alignments(Instance& instance) {
  for (Item& item : instance.items) {
    if (instance.unit % item.alignment == 0) item.alignment = 1;
  }
}

/// Per clique: the sum of bytes.
std::vector<Bytes> clique_bytes(const Instance& instance) {
  std::vector<Bytes> result(static_cast<std::size_t>(instance.cliques) + 1);
  for (const Item& item : instance.items) {
    result[item.first] += item.bytes;
    result[item.last + 1] -= item.bytes;
  }
  std::partial_sum(result.begin(), result.end(), result.begin());
  result.pop_back();
  return result;
}

}  // namespace

std::vector<Buffer> rounded(std::vector<Buffer> buffers, Bytes alignment) {
  for (Buffer& buffer : buffers) buffer.bytes = align_up(buffer.bytes, alignment);
  return buffers;
}

Instance instance_of(const std::vector<Buffer>& buffers) {
  Instance instance;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (takes_room(buffers[i])) instance.buffers.push_back(static_cast<std::int32_t>(i));
  }
  const std::vector<std::int32_t> times = clique_times(buffers, instance.buffers);
  const auto clique_from = [&](std::int32_t time) {
    return static_cast<std::int32_t>(std::ranges::lower_bound(times, time) - times.begin());
  };
  instance.cliques = static_cast<std::int32_t>(times.size());
  instance.unit = 0;
  for (std::int32_t i : instance.buffers) {
    const Buffer& buffer = buffers[i];
    const Item item{clique_from(buffer.begin), clique_from(buffer.end) - 1, buffer.bytes,
                    buffer.alignment, buffer.fixed.value_or(Item::kFree)};
    instance.unit = std::gcd(instance.unit, item.bytes);
    if (buffer.fixed) instance.unit = std::gcd(instance.unit, *buffer.fixed);
    instance.items.push_back(item);
  }
  drop_trivial_alignments(instance);
  for (const Item& item : instance.items) {
    if (item.alignment > 1) instance.unit = std::gcd(instance.unit, item.alignment);
  }
  instance.unit = std::max<Bytes>(instance.unit, 1);
  return instance;
}

std::vector<Bytes> of_items(const Instance& instance, const std::vector<Bytes>& of_buffers) {
  std::vector<Bytes> result;
  for (const std::int32_t buffer : instance.buffers) result.push_back(of_buffers[buffer]);
  return result;
}

void set_of_buffers(const Instance& instance, const std::vector<Bytes>& of_items,
                    std::vector<Bytes>& of_buffers) {
  for (std::size_t i = 0; i < of_items.size(); ++i) of_buffers[instance.buffers[i]] = of_items[i];
}

std::int64_t lives(const Instance& instance) {
  std::int64_t sum = 0;
  for (const Item& item : instance.items) sum += item.last - item.first + 1;
  return sum;
}

std::vector<Bytes> loads(const Instance& instance) {
  if (instance.items.empty()) return {};
  // most[k][c]: the maximum over the 2^k cliques from c on.
  std::vector<std::vector<Bytes>> most{clique_bytes(instance)};
  for (std::size_t width = 1; 2 * width <= most[0].size(); width *= 2) {
    const std::vector<Bytes>& halves = most.back();
    std::vector<Bytes> wider(halves.size() - width);
    for (std::size_t c = 0; c < wider.size(); ++c) {
      wider[c] = std::max(halves[c], halves[c + width]);
    }
    most.push_back(std::move(wider));
  }
  std::vector<Bytes> result;
  for (const Item& item : instance.items) {
    const auto length = static_cast<std::uint32_t>(item.last - item.first + 1);
    const auto k = static_cast<std::size_t>(std::bit_width(length) - 1);
    result.push_back(std::max(most[k][item.first], most[k][item.last + 1 - (1 << k)]));
  }
  return result;
}

Bytes lower_bound(const Instance& instance) {
  Bytes bound = 0;
  for (Bytes bytes : clique_bytes(instance)) bound = std::max(bound, bytes);
  for (const Item& item : instance.items) {
    if (item.fixed != Item::kFree) bound = std::max(bound, item.fixed + item.bytes);
  }
  return bound;
}

}  // namespace lowtide::packing
