#include "base/machine_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

namespace lowtide {
namespace {

namespace fs = std::filesystem;

class ControlGroups : public ::testing::Test {
 protected:
  ControlGroups()
      : root_(fs::path(::testing::TempDir()) /
              ("lowtide_control_groups" + std::to_string(getpid()))) {
    fs::remove_all(root_);
  }
  ~ControlGroups() override { fs::remove_all(root_); }

  void write(const fs::path& file, const std::string& text) const {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  std::optional<MachineMemory> read(const std::string& membership) const {
    return control_group_memory(root_, membership);
  }

  fs::path root_;
};

TEST_F(ControlGroups, WithoutALimitThereIsNone) {
  EXPECT_FALSE(read("0::/\n"));
  write("memory.max", "max\n");
  write("memory.current", "5\n");
  EXPECT_FALSE(read("0::/\n"));
  EXPECT_FALSE(read(""));
}

TEST_F(ControlGroups, FilesThatAreGivenUpWhenMemoryIsShortAreFree) {
  write("memory.max", "1000\n");
  write("memory.current", "600\n");
  write("memory.stat", "anon 100\ninactive_file 150\nfile 400\n");
  EXPECT_EQ(read("0::/\n")->total, 1000);
  EXPECT_EQ(read("0::/\n")->free, 550);
}

TEST_F(ControlGroups, TheTightestAncestorCounts) {
  write("a/memory.max", "1000\n");
  write("a/memory.current", "990\n");
  write("a/b/memory.max", "500\n");
  write("a/b/memory.current", "100\n");
  EXPECT_EQ(read("0::/a/b\n")->total, 500);
  EXPECT_EQ(read("0::/a/b\n")->free, 10);
  EXPECT_EQ(read("0::/a\n")->total, 1000);
}

TEST_F(ControlGroups, TheFirstVersionHasAFolderOfItsOwn) {
  write("memory/c/memory.limit_in_bytes", "700\n");
  write("memory/c/memory.usage_in_bytes", "900\n");
  EXPECT_EQ(read("11:cpu:/c\n9:memory:/c\n")->total, 700);
  EXPECT_EQ(read("11:cpu:/c\n9:memory:/c\n")->free, 0);
}

TEST(MachineMemory, FreeMemoryIsSomeOfIt) {
  const MachineMemory memory = machine_memory();
  EXPECT_GT(memory.total, 0);
  EXPECT_LE(memory.total, physical_memory());
  EXPECT_GT(memory.free, 0);
  EXPECT_LE(memory.free, memory_and_swap());
}

}  // namespace
}  // namespace lowtide
