#pragma once

#include "base/bytes.h"

namespace lowtide {

/// Bytes of memory that this machine has.
Bytes physical_memory();
/// The same with the room on disk that the system moves memory to.
Bytes memory_and_swap();

/// Address space that one block may take: as much as the machine has memory, and where the process
/// is limited (`ulimit -v`), at most half of what the limit leaves, so that others find room too.
Bytes addressable_memory();

}  // namespace lowtide
