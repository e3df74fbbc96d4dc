#include "slower/file_store.h"

#include <memory>

#include "slower/file_medium.h"

namespace lowtide::slower {

FileStore::FileStore(const std::filesystem::path& folder, Bytes bytes, const FileOptions& options)
    : LaneStore(std::make_unique<FileMedium>(folder, bytes, options), options.threads_per_lane) {}

}  // namespace lowtide::slower
