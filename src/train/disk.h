#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "offload/joint.h"
#include "slower/store.h"

namespace lowtide::train {

/// A disk as the slower memory of a training run.

/// What copies to a file in the folder take, measured now, in microseconds; and how many bytes may
/// move there: `limit`, or nine tenths of what is free. Throws Error when the folder cannot be
/// used.
offload::Slower measured_disk(const std::filesystem::path& folder, std::optional<Bytes> limit);

/// Host memory that the file's copies go through, and that brings values to its pages.
Bytes disk_buffer_bytes();

/// Throws InputError when the folder cannot be used.
void require_disk(const std::filesystem::path& folder);

/// A file of so many bytes in the folder. Throws Error when there is no room for it.
std::unique_ptr<slower::Store> open_disk(const std::filesystem::path& folder, Bytes bytes);

}  // namespace lowtide::train
