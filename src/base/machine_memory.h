#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

#include "base/bytes.h"

namespace lowtide {

/// Bytes of physical memory of this machine.
Bytes physical_memory();
/// Physical memory and swap space together.
Bytes memory_and_swap();

/// The largest address range for one block: the machine's memory, but at most half of the rest of
/// the process's limit (`ulimit -v`), so that other allocations have address space too.
Bytes addressable_memory();

/// Memory of this machine, and how much of it this process may still take: what the system can make
/// available, swap space included, within the limits of the process's control groups (a container's
/// limit).
struct MachineMemory {
  Bytes total = 0;
  Bytes free = 0;
};
MachineMemory machine_memory();

/// The tightest limit of a control group and its ancestors, and what it leaves; nothing without a
/// limit. `root`: where the system shows control groups; `membership`: the text of
/// /proc/self/cgroup.
std::optional<MachineMemory> control_group_memory(const std::filesystem::path& root,
                                                  std::string_view membership);

}  // namespace lowtide
