#include "train/disk.h"

#include <fmt/format.h>

#include <system_error>

#include "base/error.h"
#include "slower/file_store.h"
#include "slower/measure.h"
#include "slower/reserved_file.h"

namespace lowtide::train {
namespace {

/// Small buffers: they are a part of the budget.
const slower::FileOptions kFile{.request_bytes = Bytes{2} << 20, .threads_per_lane = 2};
constexpr Bytes kMeasuredBytes = Bytes{64} << 20;
constexpr double kUsableShare = 0.9;

Lane lane_of(const slower::Speed& speed) {
  constexpr double kMicroseconds = 1e6;
  return {speed.latency_seconds * kMicroseconds,
          speed.bytes_per_second > 0 ? kMicroseconds / speed.bytes_per_second : 0};
}

Bytes free_bytes(const std::filesystem::path& folder) {
  std::error_code failed;
  const std::filesystem::space_info space = std::filesystem::space(folder, failed);
  if (!failed) return static_cast<Bytes>(space.available);
  throw InputError(fmt::format("{}: {}; give --disk a folder that can be written", folder.string(),
                               failed.message()));
}

}  // namespace

offload::Slower measured_disk(const std::filesystem::path& folder, std::optional<Bytes> limit) {
  const Bytes usable = static_cast<Bytes>(kUsableShare * static_cast<double>(free_bytes(folder)));
  slower::FileStore probe(folder, kMeasuredBytes, kFile);
  const slower::LaneSpeed speed = slower::measure(probe);
  return {.lanes = {lane_of(speed.out), lane_of(speed.in), speed.shared},
          .bytes = limit.value_or(usable)};
}

Bytes disk_buffer_bytes() {
  return 2 * kFile.threads_per_lane * kFile.request_bytes + kCopyAlignment;
}

void require_disk(const std::filesystem::path& folder) {
  static_cast<void>(slower::reserve_file(folder, 1));
}

std::unique_ptr<slower::Store> open_disk(const std::filesystem::path& folder, Bytes bytes) {
  return std::make_unique<slower::FileStore>(folder, bytes, kFile);
}

}  // namespace lowtide::train
