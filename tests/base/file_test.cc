#include "base/file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>

#include "base/error.h"

namespace lowtide {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class FileTest : public ::testing::Test {
 protected:
  FileTest() {
    std::string pattern = (fs::temp_directory_path() / "lowtide-file-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~FileTest() override { fs::remove_all(folder_); }

  std::size_t files_left() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  fs::path folder_;
};

TEST_F(FileTest, ReadsWhatItWrote) {
  const fs::path path = folder_ / "a";
  std::string content = "first\n";
  content.push_back('\0');
  content += std::string(300'000, 'x');
  write_file(path, content);
  EXPECT_EQ(read_file(path), content);
  write_file(path, "");
  EXPECT_EQ(read_file(path), "");
  EXPECT_EQ(files_left(), 1u);
}

TEST_F(FileTest, JoinsParts) {
  write_file(folder_ / "a", [](const Append& append) {
    for (std::string_view part : {"ab", "", "cd"}) append(part);
  });
  EXPECT_EQ(read_file(folder_ / "a"), "abcd");
}

TEST_F(FileTest, AFailureWhileAPartIsMadeLeavesTheOldFile) {
  write_file(folder_ / "a", "old");
  const auto fails = [](const Append& append) {
    append("new");
    throw Error("no more");
  };
  EXPECT_THROW(write_file(folder_ / "a", fails), Error);
  EXPECT_EQ(read_file(folder_ / "a"), "old");
  EXPECT_EQ(files_left(), 1u);
}

TEST_F(FileTest, FollowsALink) {
  write_file(folder_ / "real", "old");
  fs::create_symlink("real", folder_ / "link");
  write_file(folder_ / "link", "new");
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_EQ(read_file(folder_ / "real"), "new");
}

TEST_F(FileTest, WritesIntoAPipeBehindALink) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  write_file("/dev/fd/" + std::to_string(ends[1]), "piped");
  char read[8] = {};
  EXPECT_EQ(::read(ends[0], read, sizeof read), 5);
  EXPECT_STREQ(read, "piped");
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_F(FileTest, OverwritesWhatAKilledWriterLeft) {
  write_file(folder_ / "a.partial", std::string(1000, 'z'));
  write_file(folder_ / "a", "short");
  EXPECT_EQ(read_file(folder_ / "a"), "short");
  EXPECT_EQ(files_left(), 1u);
}

TEST_F(FileTest, RefusesWhatAnotherWriterHolds) {
  const fs::path partial = folder_ / "a.partial";
  write_file(partial, "half");
  const int other = ::open(partial.c_str(), O_RDWR);
  ASSERT_EQ(::flock(other, LOCK_EX), 0);
  EXPECT_THAT([&] { write_file(folder_ / "a", "mine"); },
              ThrowsMessage<Error>(HasSubstr("another process is writing it")));
  ::close(other);
  EXPECT_EQ(read_file(partial), "half");
}

TEST_F(FileTest, DoesNotFollowALinkThatAnotherUserMayHaveLaid) {
  write_file(folder_ / "precious", "mine");
  fs::create_symlink(folder_ / "precious", folder_ / "a.partial");
  EXPECT_THAT([&] { write_file(folder_ / "a", "new"); },
              ThrowsMessage<InputError>(HasSubstr("a.partial is a symbolic link")));
  EXPECT_EQ(read_file(folder_ / "precious"), "mine");
}

TEST_F(FileTest, DoesNotWaitAtAPipeOfTheNameOfThePartialFile) {
  ASSERT_EQ(::mkfifo((folder_ / "a.partial").c_str(), 0600), 0);
  EXPECT_THROW(write_file(folder_ / "a", "new"), InputError);
  const int reader = ::open((folder_ / "a.partial").c_str(), O_RDONLY | O_NONBLOCK);
  EXPECT_THAT([&] { write_file(folder_ / "a", "new"); },
              ThrowsMessage<InputError>(HasSubstr("is no regular file")));
  ::close(reader);
}

TEST_F(FileTest, APrivateFileIsForItsOwnerAlone) {
  write_file(folder_ / "a.partial", "left by a process that was killed");
  fs::permissions(folder_ / "a.partial", fs::perms::all);
  write_private_file(folder_ / "a", "x");
  EXPECT_EQ(fs::status(folder_ / "a").permissions(),
            fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(FileTest, MakesAFolderForItsOwnerAlone) {
  const fs::path folder = folder_ / "above" / "private";
  require_private_folder(folder);  // there is none
  make_private_folder(folder);
  make_private_folder(folder);
  EXPECT_EQ(fs::status(folder).permissions(), fs::perms::owner_all);
}

TEST_F(FileTest, RefusesAFolderInWhichOthersMayWrite) {
  const fs::path folder = folder_ / "shared";
  make_private_folder(folder);
  for (const fs::perms others : {fs::perms::others_write, fs::perms::group_write}) {
    fs::permissions(folder, fs::perms::owner_all | others);
    EXPECT_THAT([&] { require_private_folder(folder); },
                ThrowsMessage<InputError>(HasSubstr("chmod go-w")));
    EXPECT_THROW(make_private_folder(folder), InputError);
  }
  write_file(folder_ / "file", "");
  EXPECT_THAT([&] { require_private_folder(folder_ / "file"); },
              ThrowsMessage<InputError>(HasSubstr("Not a directory")));
}

TEST_F(FileTest, RefusesAFolderOfAnotherUser) {
  const uid_t another = ::geteuid() + 1;
  if (::chown(folder_.c_str(), another, static_cast<gid_t>(-1)) != 0) {
    GTEST_SKIP() << "this process may not give a folder away";
  }
  EXPECT_THAT([&] { require_private_folder(folder_); },
              ThrowsMessage<InputError>(HasSubstr("belongs to another user")));
}

TEST_F(FileTest, NamesWhatCannotBeRead) {
  EXPECT_THAT([&] { read_file(folder_ / "none"); },
              ThrowsMessage<InputError>(AllOf(HasSubstr("none"), HasSubstr("No such file"))));
  EXPECT_THAT([&] { read_file(folder_); },
              ThrowsMessage<InputError>(HasSubstr("Is a directory")));
  EXPECT_THAT([&] { open_for_reading(folder_); },
              ThrowsMessage<InputError>(HasSubstr("Is a directory")));
  EXPECT_THAT([&] { open_for_reading(folder_ / "none"); },
              ThrowsMessage<InputError>(HasSubstr("No such file")));
}

TEST_F(FileTest, NamesWhatCannotBeWritten) {
  EXPECT_THAT([&] { write_file(folder_, "x"); },
              ThrowsMessage<InputError>(HasSubstr("Is a directory")));
  EXPECT_THAT([&] { write_file(folder_ / "no" / "such", "x"); },
              ThrowsMessage<InputError>(HasSubstr("No such file")));
}

TEST_F(FileTest, TellsOfAFullDevice) {
  EXPECT_THAT([&] { write_file("/dev/full", "x"); },
              ThrowsMessage<Error>(AllOf(HasSubstr("/dev/full"), HasSubstr("No space left"),
                                         HasSubstr("Free some space"))));
}

/// Runs in a child process that may write at most 100 bytes to a file.
int write_too_much(const fs::path& path) {
  std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{100, 100};
  ::setrlimit(RLIMIT_FSIZE, &limit);
  try {
    write_file(path, std::string(1000, 'x'));
  } catch (const Error& error) {
    return std::string_view(error.what()).find(path.string()) != std::string_view::npos ? 0 : 2;
  }
  return 1;
}

TEST_F(FileTest, KeepsTheOldFileWhenWritingFails) {
  const fs::path path = folder_ / "a";
  write_file(path, "old");
  const pid_t child = ::fork();
  if (child == 0) ::_exit(write_too_much(path));
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(read_file(path), "old");
  EXPECT_EQ(files_left(), 1u) << "the partial file must be gone";
}

}  // namespace
}  // namespace lowtide
