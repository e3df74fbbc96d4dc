#include "slower/file_medium.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "base/at.h"
#include "base/error.h"
#include "slower/checksum.h"
#include "slower/reserved_file.h"

namespace lowtide::slower {
namespace {

constexpr Bytes kSmallestRequest = Bytes{1} << 20;
constexpr Bytes kLargestRequest = Bytes{8} << 20;
constexpr int kMostThreads = 16;
/// Calls in a row that move less than a page, after which a request is given up.
constexpr int kMostIdleCalls = 8;

/// Throws InputError for options out of range.
FileOptions checked(const FileOptions& options) {
  const Bytes request = options.request_bytes;
  if (request < kSmallestRequest || request > kLargestRequest ||
      !std::has_single_bit(static_cast<std::uint64_t>(request))) {
    throw InputError(fmt::format("a file of values takes requests of 1, 2, 4 or 8 MiB, not of {}",
                                 format_bytes(request)));
  }
  if (options.threads_per_lane < 1 || options.threads_per_lane > kMostThreads) {
    throw InputError(fmt::format("a file of values takes 1 to {} threads per lane, not {}",
                                 kMostThreads, options.threads_per_lane));
  }
  return options;
}

bool is_full(int error) { return error == ENOSPC || error == EDQUOT; }

std::shared_ptr<Buffers> buffers_of(const FileOptions& options) {
  if (options.buffers != nullptr) return options.buffers;
  return std::make_shared<Buffers>(2 * options.threads_per_lane, options.request_bytes);
}

}  // namespace

FileMedium::FileMedium(const std::filesystem::path& folder, Bytes bytes, const FileOptions& options)
    : name_(fmt::format("the file of values in {}", folder.string())),
      bytes_(bytes),
      request_bytes_(checked(options).request_bytes),
      calls_(*options.calls),
      file_(reserve_file(folder, bytes)),
      buffers_(buffers_of(options)),
      is_direct_(turn_direct()) {}

/// Tries a write, as some file systems take the flag and refuse the transfers.
bool FileMedium::turn_direct() {
  const int flags = ::fcntl(file_.get(), F_GETFL);
  if (::fcntl(file_.get(), F_SETFL, flags | O_DIRECT) != 0) return false;
  const Buffers::Lease buffer = buffers_->take();
  const std::span<std::byte> page = buffer.first(kPage);
  std::ranges::fill(page, std::byte{0});
  if (calls_.pwrite(file_.get(), page.data(), page.size(), 0) >= 0 || errno != EINVAL) return true;
  ::fcntl(file_.get(), F_SETFL, flags);
  return false;
}

Range FileMedium::aligned(Range range) const {
  return {align_down(range.begin, alignment()), align_up(range.end, alignment())};
}

bool FileMedium::is_aligned(const std::byte* data, Range range) const {
  const auto mask = static_cast<std::uintptr_t>(alignment() - 1);
  return (std::bit_cast<std::uintptr_t>(data) & mask) == 0 && aligned(range) == range;
}

void FileMedium::write(Block& block, std::span<const std::byte> data, const Worker& worker) {
  block.checksum = checksum(data);
  if (is_aligned(data.data(), block.range)) return write_all(block.range.begin, data, worker);
  const Range whole = aligned(block.range);
  const Buffers::Lease lease = buffers_->take();
  const std::span<std::byte> buffer = lease.first(whole.bytes());
  read_shared_pages(block, whole, buffer, worker);
  std::ranges::copy(data, buffer.begin() + (block.range.begin - whole.begin));
  write_all(whole.begin, buffer, worker);
}

/// Puts what other values have there in the first and the last page of the buffer.
void FileMedium::read_shared_pages(const Block& block, Range whole, std::span<std::byte> buffer,
                                   const Worker& worker) {
  const std::span<std::byte> first = buffer.first(at(alignment()));
  const std::span<std::byte> last = buffer.last(at(alignment()));
  std::ranges::fill(first, std::byte{0});  // the file gets nothing that lay in memory before
  std::ranges::fill(last, std::byte{0});
  if (block.shares_front) read_all(whole.begin, first, worker);
  if (block.shares_back) read_all(whole.end - alignment(), last, worker);
}

void FileMedium::read(const Block& block, Bytes offset, std::span<std::byte> into,
                      const Worker& worker) {
  const Range part{offset, offset + static_cast<Bytes>(into.size())};
  if (part == block.range && is_aligned(into.data(), part)) {
    read_all(offset, into, worker);
    return verify(block, into, worker);
  }
  const Range whole = aligned(block.range);
  const Buffers::Lease lease = buffers_->take();
  const std::span<std::byte> buffer = lease.first(whole.bytes());
  read_all(whole.begin, buffer, worker);
  verify(block, buffer.subspan(at(block.range.begin - whole.begin), at(block.range.bytes())),
         worker);
  std::ranges::copy(buffer.subspan(at(offset - whole.begin), into.size()), into.begin());
}

void FileMedium::write_all(Bytes offset, std::span<const std::byte> data, const Worker& worker) {
  const Range range{offset, offset + static_cast<Bytes>(data.size())};
  move_all(range, "write", worker, [&](Range rest) {
    return calls_.pwrite(file_.get(), &data[at(rest.begin - offset)], at(rest.bytes()), rest.begin);
  });
  if (is_direct_) return;
  flush(range, worker);
  leave_page_cache();
}

void FileMedium::read_all(Bytes offset, std::span<std::byte> into, const Worker& worker) {
  const Range range{offset, offset + static_cast<Bytes>(into.size())};
  move_all(range, "read", worker, [&](Range rest) {
    return calls_.pread(file_.get(), &into[at(rest.begin - offset)], at(rest.bytes()), rest.begin);
  });
  if (!is_direct_) leave_page_cache();
}

/// Calls until the whole range has been moved. A call may move a part, and goes on at a page then.
template <typename Call>
void FileMedium::move_all(Range range, const char* verb, const Worker& worker, const Call& call) {
  int idle_calls = 0;
  for (Range rest = range; rest.begin < rest.end;) {
    const ssize_t moved = call(rest);
    if (moved < 0 && errno == EINTR) continue;
    if (moved < 0) fail(verb, rest.begin, errno, worker);
    if (moved == 0) fail(verb, rest.begin, "the file ends there", worker);
    const Bytes reached = rest.begin + moved;
    const Bytes next = reached == rest.end ? reached : align_down(reached, alignment());
    idle_calls = next > rest.begin ? 0 : idle_calls + 1;
    if (idle_calls == kMostIdleCalls) {
      fail(verb, rest.begin, "the system moves less than a page at once", worker);
    }
    rest.begin = next;
  }
}

/// Only pages that have been flushed can leave the page cache. What is no error of the disk means
/// that the file system cannot do it.
void FileMedium::flush(Range range, const Worker& worker) {
  constexpr unsigned kFlush =
      SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
  if (::sync_file_range(file_.get(), range.begin, range.bytes(), kFlush) == 0) return;
  if (errno == EIO || is_full(errno)) fail("write", range.begin, errno, worker);
}

/// The whole file, as the kernel may hold several pages as one that reaches beyond a request. What
/// it cannot drop yet leaves with a later request. Failures do not matter to the bytes.
void FileMedium::leave_page_cache() { ::posix_fadvise(file_.get(), 0, 0, POSIX_FADV_DONTNEED); }

void FileMedium::verify(const Block& block, std::span<const std::byte> data,
                        const Worker& worker) const {
  if (checksum(data) == block.checksum) return;
  fail("read", block.range.begin, "the bytes are not those that were written", worker);
}

void FileMedium::fail(const char* verb, Bytes offset, int error, const Worker& worker) const {
  fail(verb, offset,
       fmt::format("{}{}", std::strerror(error), is_full(error) ? " (free some space there)" : ""),
       worker);
}

void FileMedium::fail(const char* verb, Bytes offset, const std::string& reason,
                      const Worker& worker) const {
  throw Error(fmt::format("cannot {} the value \"{}\" at byte {} of {}: {}; check that disk, or "
                          "choose a folder on another one",
                          verb, worker.value, offset, name_, reason));
}

}  // namespace lowtide::slower
