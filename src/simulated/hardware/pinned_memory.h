#pragma once

#include <ATen/core/CachingHostAllocator.h>

namespace lowtide::simulated {

/// Memory of the host that copies without blocking may use late, as CUDA's pinned memory.
at::HostAllocator& pinned_allocator();
bool is_pinned(const void* data);

}  // namespace lowtide::simulated
