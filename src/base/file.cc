#include "base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace lowtide {
namespace fs = std::filesystem;
namespace {

std::string reason(int error) { return std::generic_category().message(error); }

/// A file descriptor that closes itself.
class Descriptor {
 public:
  Descriptor(const fs::path& path, int flags)
      : value_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {}
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  int get() const { return value_; }
  explicit operator bool() const { return value_ >= 0; }

 private:
  int value_;
};

[[noreturn]] void cannot_read(const fs::path& path, int error) {
  throw InputError(fmt::format("cannot read {}: {}.", path.string(), reason(error)));
}

[[noreturn]] void cannot_open_for_writing(const fs::path& path, int error) {
  throw InputError(fmt::format("cannot write {}: {}.", path.string(), reason(error)));
}

[[noreturn]] void cannot_write(const fs::path& path, int error) {
  const char* advice = error == ENOSPC || error == EDQUOT
                           ? " Free some space there or choose another place."
                           : "";
  throw Error(fmt::format("cannot write {}: {}.{}", path.string(), reason(error), advice));
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

int write_all(int descriptor, std::span<const std::string_view> parts) {
  for (std::string_view part : parts) {
    if (const int error = write_all(descriptor, part)) return error;
  }
  return 0;
}

bool same_file(int descriptor, const fs::path& path) {
  struct stat held, named;
  return ::fstat(descriptor, &held) == 0 && ::stat(path.c_str(), &named) == 0 &&
         held.st_dev == named.st_dev && held.st_ino == named.st_ino;
}

/// Opens and locks the partial file, so that two processes never write into the same one. When
/// its last owner has just renamed it away, what was opened is the finished file: start again.
Descriptor claim_partial(const fs::path& path, const fs::path& partial) {
  while (true) {
    Descriptor file(partial, O_WRONLY | O_CREAT);
    if (!file) cannot_open_for_writing(path, errno);
    if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
      throw Error(fmt::format("cannot write {}: another process is writing it.", path.string()));
    }
    if (same_file(file.get(), partial)) return file;
  }
}

/// A rename is lasting only once the directory is on the disk. Not every file system can do that,
/// and the file is complete either way, so a failure here is none of the caller's.
void sync_directory(const fs::path& path) {
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  const Descriptor directory(folder, O_RDONLY | O_DIRECTORY);
  if (directory) ::fsync(directory.get());
}

void replace_file(const fs::path& path, std::span<const std::string_view> parts) {
  fs::path partial = path;
  partial += ".partial";
  const Descriptor file = claim_partial(path, partial);
  int error = ::ftruncate(file.get(), 0) == 0 ? 0 : errno;
  if (error == 0) error = write_all(file.get(), parts);
  if (error == 0 && ::fsync(file.get()) != 0) error = errno;
  if (error == 0 && ::rename(partial.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) {
    ::unlink(partial.c_str());
    cannot_write(path, error);
  }
  sync_directory(path);
}

void write_directly(const fs::path& path, std::span<const std::string_view> parts) {
  const Descriptor file(path, O_WRONLY);
  if (!file) cannot_open_for_writing(path, errno);
  if (const int error = write_all(file.get(), parts)) cannot_write(path, error);
}

}  // namespace

std::string read_file(const fs::path& path) {
  const Descriptor file(path, O_RDONLY);
  if (!file) cannot_read(path, errno);
  struct stat status;
  if (::fstat(file.get(), &status) != 0) cannot_read(path, errno);
  if (S_ISDIR(status.st_mode)) cannot_read(path, EISDIR);
  std::string content;
  std::size_t size = 0;
  // One byte more than expected, so that the end is seen without growing.
  content.resize(S_ISREG(status.st_mode) ? static_cast<std::size_t>(status.st_size) + 1 : 1 << 16);
  while (true) {
    if (size == content.size()) content.resize(2 * size);
    const ssize_t got = ::read(file.get(), content.data() + size, content.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) cannot_read(path, errno);
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  content.resize(size);
  return content;
}

std::ifstream open_for_reading(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) cannot_read(path, EISDIR);
  std::ifstream stream(path, std::ios::binary);
  if (!stream) cannot_read(path, errno);
  return stream;
}

void write_file(const fs::path& path, std::string_view content) {
  write_file(path, std::span(&content, 1));
}

void write_file(const fs::path& path, std::span<const std::string_view> parts) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status)) cannot_open_for_writing(path, EISDIR);
  // A pipe may have a link to it, such as /dev/stdout, and no path of its own.
  if (fs::exists(status) && !fs::is_regular_file(status)) return write_directly(path, parts);
  replace_file(fs::is_symlink(path, error) ? fs::weakly_canonical(path, error) : path, parts);
}

}  // namespace lowtide
