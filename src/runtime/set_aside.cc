#include "runtime/set_aside.h"

#include <ATen/Functions.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <numeric>

#include "graph/boundary.h"
#include "layout/plan_buffers.h"

namespace lowtide::runtime {
namespace {

std::int32_t time_of_boundary(const Graph& graph, const Plan& plan) {
  const OpId boundary = find_boundary(graph);
  const auto at = std::ranges::find_if(plan.actions, [&](const Action& action) {
    return action.verb == Verb::run && action.index == boundary;
  });
  return static_cast<std::int32_t>(at - plan.actions.begin());
}

/// Of the buffer that begins at an action with this content.
Bytes offset_of(const Plan& plan, std::int32_t time, const Placement& first) {
  const auto& placements = plan.layout->placements[static_cast<std::size_t>(time)];
  return std::ranges::find_if(placements,
                              [&](const Placement& placement) {
                                return placement.workspace == first.workspace &&
                                       placement.index == first.index;
                              })
      ->offset;
}

/// Sorted, and as few as there can be.
std::vector<BlockRange> merged(std::vector<BlockRange> ranges) {
  std::ranges::sort(ranges, {}, &BlockRange::begin);
  std::vector<BlockRange> found;
  for (const BlockRange& range : ranges) {
    if (!found.empty() && range.begin <= found.back().end) {
      found.back().end = std::max(found.back().end, range.end);
    } else {
      found.push_back(range);
    }
  }
  return found;
}

/// Of what is exchanged at one time.
constexpr Bytes kPiece = 32768;

at::Tensor bytes_at(std::byte* data, Bytes bytes, c10::Device device) {
  return at::from_blob(data, {bytes}, at::TensorOptions().dtype(at::kByte).device(device));
}

}  // namespace

std::vector<BlockRange> waiting_ranges(const Graph& graph, const Plan& plan, const BlockMap& map) {
  const std::int32_t time = time_of_boundary(graph, plan);
  const layout::PlanBuffers needed = layout::buffers_of(graph, plan);
  std::vector<BlockRange> ranges;
  for (std::size_t i = 0; i < needed.buffers.size(); ++i) {
    const packing::Buffer& buffer = needed.buffers[i];
    if (buffer.begin >= time || buffer.end <= time) continue;
    const Bytes begin = map.arena + offset_of(plan, buffer.begin, needed.first[i]);
    ranges.push_back({begin, begin + buffer.bytes});
  }
  ranges = merged(std::move(ranges));
  // A section of their own: no range lies across its end.
  if (map.arena > 0) ranges.insert(ranges.begin(), {0, map.arena});
  return ranges;
}

Bytes total_bytes(std::span<const BlockRange> ranges) {
  return std::accumulate(
      ranges.begin(), ranges.end(), Bytes{0},
      [](Bytes sum, const BlockRange& range) { return sum + range.end - range.begin; });
}

at::Tensor copied_out(std::span<const BlockRange> ranges, const SectionAddresses& block,
                      c10::Device device) {
  at::Tensor copies =
      at::empty({total_bytes(ranges)}, at::TensorOptions().dtype(at::kByte).device(device));
  Bytes offset = 0;
  for (const BlockRange& range : ranges) {
    const Bytes bytes = range.end - range.begin;
    copies.narrow(0, offset, bytes).copy_(bytes_at(block.at(range.begin), bytes, device));
    offset += bytes;
  }
  return copies;
}

void copy_back(const at::Tensor& copies, std::span<const BlockRange> ranges,
               const SectionAddresses& block) {
  Bytes offset = 0;
  for (const BlockRange& range : ranges) {
    const Bytes bytes = range.end - range.begin;
    bytes_at(block.at(range.begin), bytes, copies.device()).copy_(copies.narrow(0, offset, bytes));
    offset += bytes;
  }
}

void exchange(const at::Tensor& copies, std::span<const BlockRange> ranges,
              const SectionAddresses& block) {
  const at::Tensor piece = at::empty({kPiece}, copies.options());
  Bytes offset = 0;
  for (const BlockRange& range : ranges) {
    for (Bytes begin = range.begin; begin < range.end; begin += kPiece) {
      const Bytes bytes = std::min(kPiece, range.end - begin);
      const at::Tensor there = bytes_at(block.at(begin), bytes, copies.device());
      const at::Tensor here = copies.narrow(0, offset, bytes);
      const at::Tensor between = piece.narrow(0, 0, bytes);
      between.copy_(there);
      there.copy_(here);
      here.copy_(between);
      offset += bytes;
    }
  }
}

}  // namespace lowtide::runtime
