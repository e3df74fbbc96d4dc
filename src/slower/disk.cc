#include "slower/disk.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "slower/file_medium.h"
#include "slower/lanes.h"
#include "slower/measure.h"
#include "slower/reserved_file.h"

namespace lowtide::slower {
namespace {

constexpr int kPieces = 2 * Disk::kThreadsPerLane;  // one for each thread of a store
/// A measurement takes so much of the disk, or a part of what is free where that is less.
constexpr Bytes kMeasuredBytes = Bytes{64} << 20;
constexpr Bytes kPartToMeasure = 2;

/// "ext4 /dev/sda1 at /": of a line of /proc/self/mountinfo about the device of that number, which
/// itself may change with each start of the machine.
std::optional<std::string> described(const std::string& line, const std::string& number) {
  std::istringstream words(line);
  const std::vector<std::string> fields{std::istream_iterator<std::string>(words), {}};
  const auto dash = std::ranges::find(fields, "-");
  constexpr std::ptrdiff_t kNumber = 2, kPath = 4, kType = 1, kSource = 2;
  if (dash - fields.begin() <= kPath || fields.end() - dash <= kSource) return std::nullopt;
  if (fields[kNumber] != number) return std::nullopt;
  return fmt::format("{} {} at {}", dash[kType], dash[kSource], fields[kPath]);
}

std::optional<std::string> mounted(const std::string& number) {
  std::ifstream mounts("/proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    if (auto found = described(line, number)) return found;
  }
  return std::nullopt;
}

}  // namespace

Disk::Disk(std::filesystem::path folder) : folder_(std::move(folder)) {
  static_cast<void>(reserve_file(folder_, 1));
}

std::string Disk::name() const { return fmt::format("the folder {}", folder_.string()); }

std::string Disk::medium() const {
  struct stat info{};
  if (::stat(folder_.c_str(), &info) != 0) return folder_.string();
  const std::string number = fmt::format("{}:{}", major(info.st_dev), minor(info.st_dev));
  return mounted(number).value_or("device " + number);
}

Bytes Disk::free_bytes() const {
  std::error_code failed;
  const std::filesystem::space_info space = std::filesystem::space(folder_, failed);
  if (!failed) return static_cast<Bytes>(space.available);
  throw InputError(fmt::format("{}: {}; choose a folder that can be written", folder_.string(),
                               failed.message()));
}

Bytes Disk::bytes_to_measure() const {
  const Bytes most = align_down(free_bytes() / kPartToMeasure, kPage);
  return std::clamp(most, kPage, kMeasuredBytes);
}

LaneSpeed Disk::measured() const { return measure(*open(bytes_to_measure())); }

std::unique_ptr<Store> Disk::open(Bytes bytes) const {
  return std::make_unique<LaneStore>(reserve(bytes), kThreadsPerLane);
}

std::unique_ptr<Medium> Disk::reserve(Bytes bytes) const {
  const std::shared_ptr<Buffers> buffers = shared_buffers();
  return std::make_unique<FileMedium>(folder_, bytes,
                                      FileOptions{.request_bytes = buffers->piece_bytes(),
                                                  .threads_per_lane = kThreadsPerLane,
                                                  .buffers = buffers});
}

std::shared_ptr<Buffers> Disk::shared_buffers() const {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Buffers> buffers = buffers_.lock();
  if (buffers == nullptr) {
    buffers = std::make_shared<Buffers>(kPieces, kBufferBytes / kPieces);
    buffers_ = buffers;
  }
  return buffers;
}

}  // namespace lowtide::slower
