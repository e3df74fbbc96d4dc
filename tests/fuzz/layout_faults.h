#pragma once

#include <string_view>

#include "fuzz/faults.h"

namespace lowtide::testing {

/// Reads a text as a table of buffers, which must be refused with InputError that names the source
/// or survive being written and read again. Then packs these buffers if they are few, and the
/// buffers that the bytes of the text encode. A simple check must accept each packing, its bound
/// may not exceed its height, and contradictory fixed offsets must be refused. For up to five
/// buffers, height and bound must equal those of an exhaustive search.
Reading read_as_layout(std::string_view text);

}  // namespace lowtide::testing
