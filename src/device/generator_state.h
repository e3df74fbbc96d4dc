#pragma once

#include <ATen/CPUGeneratorImpl.h>

#include <cstddef>

#include "base/bytes.h"

namespace lowtide::device {

/// The whole state of a CPU generator in so many bytes, without the allocations of its own
/// get_state().
Bytes cpu_generator_state_bytes();
void save_cpu_generator(at::CPUGeneratorImpl& generator, std::byte* state);
void restore_cpu_generator(at::CPUGeneratorImpl& generator, const std::byte* state);

}  // namespace lowtide::device
