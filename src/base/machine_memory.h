#pragma once

#include "base/bytes.h"

namespace lowtide {

/// Bytes of physical memory of this machine.
Bytes physical_memory();
/// Physical memory and swap space together.
Bytes memory_and_swap();

/// The largest address range for one block: the machine's memory, but at most half of the rest of
/// the process's limit (`ulimit -v`), so that other allocations have address space too.
Bytes addressable_memory();

}  // namespace lowtide
