#pragma once

#include <string_view>

#include "fuzz/faults.h"

namespace lowtide::testing {

/// Reads a text as a table of buffers, which must be refused with InputError that names the source
/// or survive being written and read again; then packs these buffers if they are few, and those
/// that the bytes of the text stand for. A packing must hold by the plainest
/// check, its bound may not exceed its height, contradictory fixed offsets must be refused, and for
/// up to five buffers height and bound must be those of all packings there are.
Reading read_as_layout(std::string_view text);

}  // namespace lowtide::testing
