#pragma once

#include <vector>

#include "packing/packing.h"

namespace lowtide::packing {

/// Throws InputError, which names the buffers by their positions, when an alignment is not a power
/// of two, a fixed offset is negative or not aligned, or two fixed buffers overlap.
void require_consistent(const std::vector<Buffer>& buffers, Bytes alignment);

}  // namespace lowtide::packing
