#include "slower/disk.h"

#include <fmt/format.h>

#include <system_error>
#include <utility>

#include "base/error.h"
#include "slower/file_store.h"
#include "slower/measure.h"
#include "slower/reserved_file.h"

namespace lowtide::slower {
namespace {

constexpr int kThreadsPerLane = 2;
constexpr int kPieces = 2 * kThreadsPerLane;  // one for each thread of a store
constexpr Bytes kMeasuredBytes = Bytes{64} << 20;

}  // namespace

Disk::Disk(std::filesystem::path folder)
    : folder_(std::move(folder)),
      buffers_(std::make_unique<Buffers>(kPieces, kBufferBytes / kPieces)) {
  static_cast<void>(reserve_file(folder_, 1));
}

std::string Disk::name() const { return fmt::format("the folder {}", folder_.string()); }

Bytes Disk::free_bytes() const {
  std::error_code failed;
  const std::filesystem::space_info space = std::filesystem::space(folder_, failed);
  if (!failed) return static_cast<Bytes>(space.available);
  throw InputError(fmt::format("{}: {}; choose a folder that can be written", folder_.string(),
                               failed.message()));
}

LaneSpeed Disk::measured() const { return measure(*open(kMeasuredBytes)); }

std::unique_ptr<Store> Disk::open(Bytes bytes) const {
  return std::make_unique<FileStore>(folder_, bytes,
                                     FileOptions{.request_bytes = buffers_->piece_bytes(),
                                                 .threads_per_lane = kThreadsPerLane,
                                                 .buffers = buffers_.get()});
}

}  // namespace lowtide::slower
