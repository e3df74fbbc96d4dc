#include "slower/file_store.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <functional>
#include <limits>
#include <optional>
#include <string>

#include "base/error.h"
#include "slower/disk.h"
#include "slower/faulty_calls.h"
#include "slower/some_values.h"
#include "support/temp_folder.h"

namespace lowtide::slower {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using testing::TempFolder;

class FileStoreTest : public ::testing::Test {
 protected:
  FileStore make(Bytes bytes) {
    return FileStore(folder_.path(), bytes,
                     {.request_bytes = kMiB, .threads_per_lane = 2, .calls = &calls_});
  }
  bool is_empty() const { return fs::is_empty(folder_.path()); }

  TempFolder folder_;
  FaultyCalls calls_;
};

/// Why the copy failed; nothing if it did not.
std::string failure_of(Store& store, Ticket ticket) {
  try {
    store.wait(ticket);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

bool returns(Store& store, Bytes offset, const Value& value) {
  std::vector<std::byte> back(value.span().size());
  store.wait(store.read(offset, back, "check"));
  return std::ranges::equal(back, value.span());
}

struct FaultCase {
  Fault fault;
  int code;
  const char* reason;
};

constexpr const char* kWrong = "not those that were written";
constexpr const char* kChecked = "check that disk";

TEST_F(FileStoreTest, TellsOfEachFaultOfAWriteAndGoesOn) {
  FileStore store = make(4 * kMiB);
  const Value other(kMiB, 0, 1), value(2 * kMiB, 0, 2);
  store.wait(store.write(0, other.span(), "other"));
  for (const FaultCase& bad : {FaultCase{Fault::error, EIO, "Input/output error"},
                               FaultCase{Fault::error, ENOSPC, "free some space there"},
                               FaultCase{Fault::nothing, 0, "the file ends there"}}) {
    calls_.fail_writes(bad.fault, -1, bad.code);
    const Ticket write = store.write(kMiB, value.span(), "value 1");
    const std::string failure = failure_of(store, write);
    EXPECT_THAT(failure, AllOf(HasSubstr("cannot write the value \"value 1\" at byte "),
                               HasSubstr(folder_.path().string()), HasSubstr(bad.reason),
                               HasSubstr(kChecked)));
    EXPECT_EQ(failure_of(store, write), failure);
    calls_.fail_writes(Fault::none, 0);
    std::vector<std::byte> back(2 * kMiB);
    EXPECT_THAT(failure_of(store, store.read(kMiB, back, "value 1")),
                AnyOf(HasSubstr("the write of bytes 1048576 to 2097152 of it failed"),
                      HasSubstr("the write of bytes 2097152 to 3145728 of it failed")));
    EXPECT_TRUE(returns(store, 0, other));
    store.wait(store.write(kMiB, value.span(), "value 1"));
    EXPECT_TRUE(returns(store, kMiB, value));
  }
}

TEST_F(FileStoreTest, TellsOfAWriteThatOnlySaidItWasDone) {
  FileStore store = make(4 * kMiB);
  const Value value(kMiB, 0, 1);
  calls_.fail_writes(Fault::lie);
  store.wait(store.write(0, value.span(), "v"));
  std::vector<std::byte> back(kMiB);
  EXPECT_THAT(failure_of(store, store.read(0, back, "v")), HasSubstr(kWrong));
}

TEST_F(FileStoreTest, TellsOfEachFaultOfAReadAndGoesOn) {
  FileStore store = make(4 * kMiB);
  const Value first(kMiB, 0, 1), value(kMiB, 64, 2), back(kMiB, 0, 3), shifted(kMiB, 8, 3);
  store.wait(store.write(0, first.span(), "first"));
  store.wait(store.write(kMiB, value.span(), "value 1"));
  for (const FaultCase& bad : {FaultCase{Fault::error, EIO, "Input/output error"},
                               FaultCase{Fault::nothing, 0, "the file ends there"},
                               FaultCase{Fault::flipped, 0, kWrong},
                               FaultCase{Fault::lie, 0, kWrong},
                               FaultCase{Fault::elsewhere, 0, kWrong}}) {
    for (const std::span<std::byte> into : {back.span(), shifted.span()}) {
      calls_.fail_reads(bad.fault, 1, bad.code);
      EXPECT_THAT(failure_of(store, store.read(kMiB, into, "value 1")),
                  AllOf(HasSubstr("cannot read the value \"value 1\" at byte 1048576 of the file"),
                        HasSubstr(folder_.path().string()), HasSubstr(bad.reason),
                        HasSubstr(kChecked)));
      store.wait(store.read(kMiB, into, "value 1"));
      EXPECT_TRUE(std::ranges::equal(into, value.span())) << "the fault was in the call";
    }
  }
  EXPECT_TRUE(returns(store, 0, first));
}

TEST_F(FileStoreTest, GoesOnAfterPartsAndInterruptions) {
  FileStore store = make(4 * kMiB);
  const Value value(4 * kMiB, 0, 1), back(4 * kMiB, 0, 2);
  for (const Fault fault : {Fault::part, Fault::interrupted}) {
    calls_.fail_writes(fault, 20);
    calls_.fail_reads(fault, 20);
    store.wait(store.write(0, value.span(), "v"));
    store.wait(store.read(0, back.span(), "v"));
    EXPECT_TRUE(std::ranges::equal(back.span(), value.span()));
  }
}

TEST_F(FileStoreTest, KeepsTheValuesAroundOneThatIsWritten) {
  FileStore store = make(kMiB);
  const Value left(3000, 0, 1), right(3000, 0, 2), middle(5000, 0, 3);
  store.wait(store.write(1000, left.span(), "left"));
  store.wait(store.write(9000, right.span(), "right"));
  calls_.fail_reads(Fault::error);
  EXPECT_THAT(failure_of(store, store.write(4000, middle.span(), "middle")),
              HasSubstr("cannot read the value \"middle\" at byte 0 of"));
  EXPECT_TRUE(returns(store, 1000, left));
  store.wait(store.write(4000, middle.span(), "middle"));
  EXPECT_TRUE(returns(store, 1000, left));
  EXPECT_TRUE(returns(store, 4000, middle));
  EXPECT_TRUE(returns(store, 9000, right));
}

TEST_F(FileStoreTest, HasNoFileThatStays) {
  const FileStore store = make(kMiB);
  EXPECT_TRUE(is_empty());
}

TEST_F(FileStoreTest, CountsItsBuffers) {
  EXPECT_EQ(make(kMiB).buffer_bytes(), 4 * kMiB);
}

/// Runs in a child process and returns what it returns, or the signal that ended it, negative.
int in_child(const std::function<int()>& run) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(run());
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST_F(FileStoreTest, LeavesNothingWhenItsProcessIsKilled) {
  const int end = in_child([&] {
    FileStore store = make(16 * kMiB);
    const Value value(16 * kMiB, 0, 1);
    store.wait(store.write(0, value.span(), "v"));
    store.write(0, value.span(), "under way");
    return ::raise(SIGKILL);
  });
  EXPECT_EQ(end, -SIGKILL);
  EXPECT_TRUE(is_empty());
}

TEST_F(FileStoreTest, RefusesFoldersThatCannotHoldIt) {
  const auto make_in = [](const fs::path& folder) { FileStore(folder, kMiB); };
  EXPECT_THAT([&] { make_in(folder_ / "none"); },
              ThrowsMessage<InputError>(AllOf(HasSubstr("1.00 MiB"), HasSubstr("/none"),
                                              HasSubstr("No such file"), HasSubstr("choose"))));
  std::fclose(std::fopen((folder_ / "file").c_str(), "w"));
  EXPECT_THAT([&] { make_in(folder_ / "file"); },
              ThrowsMessage<InputError>(HasSubstr("Not a directory")));
  EXPECT_THROW(make_in("/proc"), InputError);
}

TEST_F(FileStoreTest, RefusesMoreThanThereIs) {
  for (const Bytes bytes : {Bytes{1} << 50, std::numeric_limits<Bytes>::max()}) {
    EXPECT_THAT([&] { make(bytes); },
                ThrowsMessage<Error>(AllOf(HasSubstr(std::to_string(bytes)), HasSubstr(" free; "),
                                           HasSubstr(folder_.path().string()),
                                           HasSubstr("No space left"), HasSubstr("choose"))));
  }
  EXPECT_THROW(make(0), InputError);
  EXPECT_THROW(make(-5), InputError);
  EXPECT_TRUE(is_empty());
}

TEST_F(FileStoreTest, RefusesOptionsOutOfRange) {
  const auto make_with = [&](Bytes request_bytes, int threads) {
    FileStore(folder_.path(), kMiB, {.request_bytes = request_bytes, .threads_per_lane = threads});
  };
  EXPECT_THROW(make_with(kMiB / 2, 1), InputError);
  EXPECT_THROW(make_with(3 * kMiB, 1), InputError);
  EXPECT_THROW(make_with(16 * kMiB, 1), InputError);
  EXPECT_THROW(make_with(kMiB, 0), InputError);
  EXPECT_THROW(make_with(kMiB, 17), InputError);
}

TEST_F(FileStoreTest, RefusesMoreThanTheProcessMayWrite) {
  const int end = in_child([&] {
    const rlimit limit{kMiB, kMiB};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    make(kMiB);
    EXPECT_THAT([&] { make(kMiB + 1); }, ThrowsMessage<Error>(HasSubstr("ulimit -f")));
    return HasFailure() ? 1 : 0;
  });
  EXPECT_EQ(end, 0);
}

constexpr int kNotAllowed = 77;

/// Runs with a file system of 8 MiB in the folder, that only a child process sees.
int with_small_disk(const fs::path& folder, const std::function<int()>& run) {
  return in_child([&] {
    if (::unshare(CLONE_NEWNS) != 0) return kNotAllowed;
    if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return kNotAllowed;
    if (::mount("lowtide-test", folder.c_str(), "tmpfs", 0, "size=8m") != 0) return kNotAllowed;
    return run();
  });
}

TEST_F(FileStoreTest, TakesAllItsRoomFromASmallDisk) {
  const int end = with_small_disk(folder_.path(), [&] {
    {
      FileStore store = make(6 * kMiB);
      EXPECT_THAT([&] { make(3 * kMiB); },
                  ThrowsMessage<Error>(AllOf(HasSubstr("3.00 MiB"), HasSubstr("2.00 MiB (2097152"),
                                             HasSubstr("No space left"))));
      const Value value(6 * kMiB - 100, 8, 1);
      store.wait(store.write(100, value.span(), "v"));
      EXPECT_TRUE(returns(store, 100, value));
    }
    make(3 * kMiB);  // the first has given back its room
    return HasFailure() ? 1 : 0;
  });
  if (end == kNotAllowed) GTEST_SKIP() << "this process may not mount a file system";
  EXPECT_EQ(end, 0);
}

TEST_F(FileStoreTest, MeasuresASmallDiskByWhatIsFree) {
  const int end = with_small_disk(folder_.path(), [&] {
    const LaneSpeed speed = Disk(folder_.path()).measured();
    EXPECT_GT(speed.out.latency_seconds + speed.out.bytes_per_second, 0);
    const FileStore rest = make(7 * kMiB);
    EXPECT_NO_THROW(Disk(folder_.path()).measured());
    return HasFailure() ? 1 : 0;
  });
  if (end == kNotAllowed) GTEST_SKIP() << "this process may not mount a file system";
  EXPECT_EQ(end, 0);
}

TEST_F(FileStoreTest, RefusesADiskThatIsReadOnly) {
  const int end = with_small_disk(folder_.path(), [&] {
    if (::mount("none", folder_.path().c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr) != 0) {
      return kNotAllowed;
    }
    EXPECT_THAT([&] { make(kMiB); },
                ThrowsMessage<InputError>(HasSubstr("Read-only file system")));
    return HasFailure() ? 1 : 0;
  });
  if (end == kNotAllowed) GTEST_SKIP() << "this process may not mount a file system";
  EXPECT_EQ(end, 0);
}

/// The open file of this process that lies in the folder and has no name.
std::optional<fs::path> nameless_file_in(const fs::path& folder) {
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code none;
    const std::string target = fs::read_symlink(entry.path(), none).string();
    if (target.starts_with(folder.string() + "/")) return entry.path();
  }
  return std::nullopt;
}

/// Pages of a file that the page cache has; nothing if the system does not tell.
std::optional<Bytes> cached_pages(const fs::path& path, Bytes bytes) {
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  void* const data = ::mmap(nullptr, std::size_t(bytes), PROT_READ, MAP_SHARED, file, 0);
  ::close(file);
  if (data == MAP_FAILED) return std::nullopt;
  std::vector<unsigned char> pages(std::size_t(bytes / kPage));
  const int told = ::mincore(data, std::size_t(bytes), pages.data());
  ::munmap(data, std::size_t(bytes));
  if (told != 0) return std::nullopt;
  return std::ranges::count_if(pages, [](unsigned char page) { return page & 1; });
}

TEST_F(FileStoreTest, StaysOutOfThePageCache) {
  for (const bool direct : {true, false}) {
    SCOPED_TRACE(direct);
    if (!direct) calls_.refuse_direct();
    FileStore store = make(8 * kMiB);
    const Value value(7 * kMiB, 64, 1);
    store.wait(store.write(100, value.span(), "v"));
    EXPECT_TRUE(returns(store, 100, value));
    const auto file = nameless_file_in(folder_.path());
    if (!file) GTEST_SKIP() << "this system does not show open files";
    const auto pages = cached_pages(*file, 8 * kMiB);
    if (!pages) GTEST_SKIP() << "this system does not say what the page cache has";
    EXPECT_LE(*pages, 8 * kMiB / kPage / 10);
  }
}

}  // namespace
}  // namespace lowtide::slower
