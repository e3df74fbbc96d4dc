#pragma once

#include <c10/core/Allocator.h>

namespace lowtide::simulated {

/// Memory of the host that copies without blocking may use late, as CUDA's pinned memory.
c10::Allocator& pinned_allocator();
bool is_pinned(const void* data);

}  // namespace lowtide::simulated
