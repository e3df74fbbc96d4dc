#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "device/device.h"
#include "plan/plan.h"
#include "runtime/block_map.h"
#include "runtime/sections.h"

namespace lowtide::runtime {

/// Bytes [begin, end) of a block, by offsets of its BlockMap.
struct BlockRange {
  Bytes begin = 0, end = 0;
  bool operator==(const BlockRange&) const = default;
};

/// What the second half of a step may read of a block before it writes it: values that are live at
/// the boundary, and states of the generator. Ascending, and apart. Preconditions: `graph` has the
/// boundary, `plan` is valid and laid out, `map` is map_arena() of both.
std::vector<BlockRange> waiting_ranges(const Graph& graph, const Plan& plan, const BlockMap& map);

Bytes total_bytes(std::span<const BlockRange> ranges);

/// Copies of the ranges of a block, one after another, in one tensor of the device.
at::Tensor copied_out(std::span<const BlockRange> ranges, const SectionAddresses& block,
                      c10::Device device);
/// The reverse. `copies` as copied_out() gave them for the same ranges.
void copy_back(const at::Tensor& copies, std::span<const BlockRange> ranges,
               const SectionAddresses& block);
/// Both at once: what the block has there is in `copies` afterwards.
void exchange(const at::Tensor& copies, std::span<const BlockRange> ranges,
              const SectionAddresses& block);

}  // namespace lowtide::runtime
