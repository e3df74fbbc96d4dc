#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>

#include "base/bytes.h"
#include "slower/blocks.h"

/// Memory of the host that a device copies from and to while the host does something else.
namespace lowtide::device {

/// Bytes with undefined content. Throws Error where the system refuses so many.
at::Tensor pinned_memory(Bytes bytes);

/// A part of pinned memory that shares its storage, as copies look for pinned storages.
at::Tensor part_of(const at::Tensor& pinned, slower::Range range);

/// These bytes of the device's memory, which must stay there as long as the result.
at::Tensor device_bytes(const std::byte* data, Bytes bytes, c10::Device device);

}  // namespace lowtide::device
