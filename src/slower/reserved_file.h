#pragma once

#include <filesystem>

#include "base/bytes.h"
#include "base/descriptor.h"

namespace lowtide::slower {

/// Opens a new file in the folder that has no name, so that nothing stays of it however the process
/// ends, and takes all its bytes from the file system, up to a whole page. Throws InputError when
/// there is no such folder, it may not be written, or `bytes` is not positive, and Error when there
/// is no room: the message has the folder, the bytes wanted and free, and what to do.
Descriptor reserve_file(const std::filesystem::path& folder, Bytes bytes);

}  // namespace lowtide::slower
