#include "base/file.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <fstream>
#include <sstream>
#include <system_error>

#include "base/bytes.h"
#include "base/control.h"
#include "base/descriptor.h"
#include "base/error.h"

namespace lowtide {
namespace fs = std::filesystem;
namespace {

std::string reason(int error) { return std::generic_category().message(error); }

[[noreturn]] void cannot_read(const fs::path& path, int error) {
  throw InputError(fmt::format("cannot read {}: {}.", path.string(), reason(error)));
}

[[noreturn]] void cannot_open_for_writing(const fs::path& path, int error) {
  throw InputError(fmt::format("cannot write {}: {}.", path.string(), reason(error)));
}

[[noreturn]] void cannot_write(const fs::path& path, int error) {
  const char* advice =
      error == ENOSPC || error == EDQUOT ? " Free some space there or choose another place." : "";
  throw Error(fmt::format("cannot write {}: {}.{}", path.string(), reason(error), advice));
}

/// Most bytes read from a pipe or device: a device may never end.
constexpr std::size_t kLargestStream = std::size_t{1} << 30;

/// Waits for data or the end of the file; also notices a request to stop.
void wait_for_input(const fs::path& path, int descriptor) {
  constexpr int kMilliseconds = 100;
  struct pollfd waiting{.fd = descriptor, .events = POLLIN, .revents = 0};
  while (::poll(&waiting, 1, kMilliseconds) <= 0) {
    if (!Control::stop_requested()) continue;
    throw StoppedError(fmt::format("stopped while waiting for {}.", path.string()));
  }
}

/// Returns 0 or the error number.
int write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

using Content = std::function<void(const Append&)>;

/// The same for a content in parts. Throws what the content throws.
int write_all(int descriptor, const Content& content) {
  int error = 0;
  content([&](std::string_view part) {
    if (error == 0) error = write_all(descriptor, part);
  });
  return error;
}

/// Removed unless it was renamed, also where its content throws.
struct PartialFile {
  fs::path path;
  bool is_renamed = false;
  ~PartialFile() {
    if (!is_renamed) ::unlink(path.c_str());
  }
};

bool same_file(int descriptor, const fs::path& path) {
  struct stat held, named;
  return ::fstat(descriptor, &held) == 0 && ::stat(path.c_str(), &named) == 0 &&
         held.st_dev == named.st_dev && held.st_ino == named.st_ino;
}

bool is_regular(int descriptor) {
  struct stat status;
  return ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
}

constexpr mode_t kEverybody = 0666;  // less what the umask takes
constexpr mode_t kOwner = 0600;
constexpr mode_t kOwnersFolder = 0700;

/// Opens and locks the partial file, so that two processes never write into the same one. When its
/// last owner has just renamed it, the descriptor is of the finished file: start again. In a folder
/// that others write in too, its name may be a link to a file of this user, or a pipe.
Descriptor claim_partial(const fs::path& path, const fs::path& partial, mode_t mode = kEverybody) {
  while (true) {
    Descriptor file(partial, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK, mode);
    if (!file && errno == ELOOP) {
      throw InputError(fmt::format("cannot write {}: {} is a symbolic link. Remove it.",
                                   path.string(), partial.string()));
    }
    if (!file) cannot_open_for_writing(path, errno);
    if (!is_regular(file.get())) {
      throw InputError(fmt::format("cannot write {}: {} is no regular file. Remove it.",
                                   path.string(), partial.string()));
    }
    if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
      throw Error(fmt::format("cannot write {}: another process is writing it.", path.string()));
    }
    if (same_file(file.get(), partial)) return file;
  }
}

/// A rename is durable only after a flush of the directory. Not every file system can do that, and
/// the file is complete anyway, so a failure here is ignored.
void sync_directory(const fs::path& path) {
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  const Descriptor directory(folder, O_RDONLY | O_DIRECTORY);
  if (directory) ::fsync(directory.get());
}

fs::path partial_of(const fs::path& path) {
  fs::path partial = path;
  partial += ".partial";
  return partial;
}

void replace_file(const fs::path& path, const Content& content, mode_t mode) {
  const Descriptor file = claim_partial(path, partial_of(path), mode);
  PartialFile partial{partial_of(path)};
  int error = ::ftruncate(file.get(), 0) == 0 ? 0 : errno;
  // A partial file that a killed process left has its own mode.
  if (error == 0 && mode == kOwner && ::fchmod(file.get(), mode) != 0) error = errno;
  if (error == 0) error = write_all(file.get(), content);
  if (error == 0 && ::fsync(file.get()) != 0) error = errno;
  if (error == 0 && ::rename(partial.path.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) cannot_write(path, error);
  partial.is_renamed = true;
  sync_directory(path);
}

/// A pipe may have no path of its own, only a link to it, such as /dev/stdout.
bool is_stream(const fs::file_status& status) {
  return fs::exists(status) && !fs::is_regular_file(status);
}

fs::path followed(const fs::path& path) {
  std::error_code error;
  return fs::is_symlink(path, error) ? fs::weakly_canonical(path, error) : path;
}

void write_directly(const fs::path& path, const Content& content) {
  const Descriptor file(path, O_WRONLY);
  if (!file) cannot_open_for_writing(path, errno);
  if (const int error = write_all(file.get(), content)) cannot_write(path, error);
}

void write_with_mode(const fs::path& path, const Content& content, mode_t mode) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status)) cannot_open_for_writing(path, EISDIR);
  if (is_stream(status)) return write_directly(path, content);
  replace_file(followed(path), content, mode);
}

/// Whether both name one regular file, there already or not.
bool is_same_file(const fs::path& a, const fs::path& b) {
  if (a.empty() || b.empty()) return false;
  std::error_code none;
  if (fs::exists(a, none) && !fs::is_regular_file(a, none)) return false;
  if (fs::equivalent(a, b, none)) return true;
  return fs::weakly_canonical(a, none) == fs::weakly_canonical(b, none);
}

}  // namespace

std::string_view without_byte_order_mark(std::string_view text) {
  constexpr std::string_view mark = "\xEF\xBB\xBF";
  if (text.starts_with(mark)) text.remove_prefix(mark.size());
  return text;
}

std::string read_file(const fs::path& path) {
  const Descriptor file(path, O_RDONLY | O_NONBLOCK);  // opening a pipe would wait for its writer
  if (!file) cannot_read(path, errno);
  struct stat status;
  if (::fstat(file.get(), &status) != 0) cannot_read(path, errno);
  if (S_ISDIR(status.st_mode)) cannot_read(path, EISDIR);
  const std::size_t most = S_ISREG(status.st_mode) ? std::string().max_size() : kLargestStream;
  std::string content;
  std::size_t size = 0;
  // One byte more than expected, so that the read finds the end without growing.
  content.resize(S_ISREG(status.st_mode) ? static_cast<std::size_t>(status.st_size) + 1 : 1 << 16);
  while (true) {
    if (size > most) {
      throw InputError(fmt::format("cannot read {}: it is no file, and goes on beyond {}.",
                                   path.string(), format_bytes(kLargestStream)));
    }
    if (size == content.size()) content.resize(2 * size);
    wait_for_input(path, file.get());
    const ssize_t got = ::read(file.get(), content.data() + size, content.size() - size);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got < 0) cannot_read(path, errno);
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  content.resize(size);
  return content;
}

std::unique_ptr<std::istream> open_for_reading(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) cannot_read(path, EISDIR);
  if (is_stream(fs::status(path, error))) {
    return std::make_unique<std::istringstream>(read_file(path));
  }
  auto stream = std::make_unique<std::ifstream>(path, std::ios::binary);
  if (!*stream) cannot_read(path, errno);
  return stream;
}

void write_file(const fs::path& path, std::string_view content) {
  write_file(path, [&](const Append& append) { append(content); });
}

void write_file(const fs::path& path, const std::function<void(const Append&)>& write) {
  write_with_mode(path, write, kEverybody);
}

void write_private_file(const fs::path& path, std::string_view content) {
  write_with_mode(path, [&](const Append& append) { append(content); }, kOwner);
}

void require_private_folder(const fs::path& folder) {
  struct stat status;
  if (::stat(folder.c_str(), &status) != 0) {
    if (errno == ENOENT) return;
    cannot_read(folder, errno);
  }
  if (!S_ISDIR(status.st_mode)) cannot_read(folder, ENOTDIR);
  if (status.st_uid != ::geteuid()) {
    throw InputError(fmt::format("the folder {} belongs to another user.", folder.string()));
  }
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    throw InputError(
        fmt::format("others may write in the folder {}. Remove it, or \"chmod go-w\" it if what is "
                    "there is yours.",
                    folder.string()));
  }
}

void make_private_folder(const fs::path& folder) {
  if (folder.has_parent_path()) fs::create_directories(folder.parent_path());
  if (::mkdir(folder.c_str(), kOwnersFolder) != 0 && errno != EEXIST) {
    cannot_open_for_writing(folder, errno);
  }
  require_private_folder(folder);
}

void require_other_files(const std::vector<fs::path>& inputs,
                         const std::vector<fs::path>& outputs) {
  std::vector<fs::path> taken = inputs;
  for (const fs::path& output : outputs) {
    for (const fs::path& other : taken) {
      if (!is_same_file(output, other)) continue;
      throw InputError(fmt::format("{} would be written over {}; give it another name",
                                   output.string(), other.string()));
    }
    taken.push_back(output);
  }
}

void require_can_write(const fs::path& path) {
  if (path.empty()) return;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status)) cannot_open_for_writing(path, EISDIR);
  if (is_stream(status)) return;
  const fs::path folder = path.parent_path();
  if (!folder.empty() && !fs::is_directory(folder, error)) {
    throw InputError(
        fmt::format("cannot write {}: there is no folder {}.", path.string(), folder.string()));
  }
  const fs::path partial = partial_of(followed(path));
  const Descriptor file = claim_partial(path, partial);
  ::unlink(partial.c_str());
}

}  // namespace lowtide
