#include "slower/reserved_file.h"

#include <fmt/format.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <optional>
#include <string>

#include "base/error.h"
#include "slower/aligned_memory.h"

namespace lowtide::slower {
namespace fs = std::filesystem;
namespace {

/// What a file system has free for this user; nothing if it does not say.
std::optional<Bytes> free_bytes(int file) {
  struct statvfs status;
  if (::fstatvfs(file, &status) != 0) return std::nullopt;
  return static_cast<Bytes>(status.f_bavail) * static_cast<Bytes>(status.f_frsize);
}

[[noreturn]] void cannot_open(const fs::path& folder, Bytes bytes, int error) {
  throw InputError(fmt::format(
      "cannot make a file of {} for values in the folder {}: {}; choose a folder on a disk that "
      "this process may write to",
      format_bytes(bytes), folder.string(), std::strerror(error)));
}

[[noreturn]] void cannot_reserve(const fs::path& folder, Bytes bytes, const std::string& why) {
  throw Error(fmt::format("cannot reserve {} ({} bytes) for values in the folder {}: {}",
                          format_bytes(bytes), bytes, folder.string(), why));
}

[[noreturn]] void has_no_room(const fs::path& folder, Bytes bytes, std::optional<Bytes> free,
                              int error) {
  cannot_reserve(
      folder, bytes,
      fmt::format(
          "{}; {}; free some space there, choose a folder on another disk, or ask for fewer bytes",
          std::strerror(error),
          free ? fmt::format("its file system has {} ({} bytes) free", format_bytes(*free), *free)
               : "its file system does not say what is free"));
}

/// A file without a name. Where the file system cannot make one, a file that loses its name at
/// once: only a kill between the two calls would leave it, with no bytes in it.
Descriptor open_nameless(const fs::path& folder, Bytes bytes) {
  constexpr mode_t kOwnerOnly = 0600;
  Descriptor file(folder, O_TMPFILE | O_RDWR, kOwnerOnly);
  if (file) return file;
  std::string name = (folder / "lowtide-values-XXXXXX").string();
  Descriptor named(::mkostemp(name.data(), O_CLOEXEC));
  if (!named || ::unlink(name.c_str()) != 0) cannot_open(folder, bytes, errno);
  return named;
}

/// Most bytes in whole pages that this process may have in one file. A larger request would end it
/// by a signal.
Bytes largest_file() {
  constexpr Bytes kMost = std::numeric_limits<Bytes>::max();
  struct rlimit limit;
  const bool is_limited = ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < rlim_t{kMost};
  return align_down(is_limited ? static_cast<Bytes>(limit.rlim_cur) : kMost, kPage);
}

}  // namespace

Descriptor reserve_file(const fs::path& folder, Bytes bytes) {
  if (bytes <= 0) {
    throw InputError(fmt::format("cannot reserve {} bytes for values in the folder {}: ask for a "
                                 "positive number",
                                 bytes, folder.string()));
  }
  std::error_code none;
  if (!fs::is_directory(folder, none)) {
    cannot_open(folder, bytes, fs::exists(folder, none) ? ENOTDIR : ENOENT);
  }
  Descriptor file = open_nameless(folder, bytes);
  // First, as some file systems take all there is before they find that it is too little.
  const std::optional<Bytes> free = free_bytes(file.get());
  if (free && *free < bytes) has_no_room(folder, bytes, free, ENOSPC);
  if (bytes > largest_file()) {
    cannot_reserve(folder, bytes,
                   fmt::format("this process may write {} to a file at most; raise that limit "
                               "(ulimit -f), or ask for fewer bytes",
                               format_bytes(largest_file())));
  }
  int error = EINTR;
  while (error == EINTR) error = ::posix_fallocate(file.get(), 0, align_up(bytes, kPage));
  if (error != 0) has_no_room(folder, bytes, free, error);
  return file;
}

}  // namespace lowtide::slower
