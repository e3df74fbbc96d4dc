#include "base/child_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace lowtide {
namespace {

using Lines = std::vector<std::string>;

ChildResult run_shell(const std::string& script, const std::string& input, Lines& lines,
                      const std::function<bool()>& should_stop = [] { return false; }) {
  return run_child({"sh", "-c", script}, input,
                   [&](const std::string& line) { lines.push_back(line); }, should_stop);
}

TEST(ChildProcess, ReadsItsInputAndGivesEachLine) {
  Lines lines;
  const ChildResult result = run_shell("sort; echo oops >&2; exit 3", "b\na\n", lines);
  EXPECT_THAT(lines, ::testing::ElementsAre("a", "b"));
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_FALSE(result.killed);
  EXPECT_EQ(result.errors, "oops\n");
}

TEST(ChildProcess, TakesMoreThanAPipeHolds) {
  Lines lines;
  const std::string large(1 << 20, 'x');
  const ChildResult result = run_shell("cat; cat; echo", large, lines);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(lines, ::testing::ElementsAre(large));
}

TEST(ChildProcess, IsKilledWithWhatItSaidSoFar) {
  Lines lines;
  const ChildResult result =
      run_shell("echo first; sleep 1000", "", lines, [&] { return !lines.empty(); });
  EXPECT_TRUE(result.killed);
  EXPECT_THAT(lines, ::testing::ElementsAre("first"));
}

TEST(ChildProcess, SaysWhenThereIsNoSuchProgram) {
  const ChildResult result = run_child({"no-such-program-here"}, "", [](const std::string&) {},
                                       [] { return false; });
  EXPECT_EQ(result.exit_code, 127);
  EXPECT_THAT(result.errors, ::testing::HasSubstr("No such file"));
}

TEST(ChildProcess, LeavesNoneBehindWhenItsReaderThrows) {
  const auto throws = [](const std::string&) { throw std::runtime_error("no"); };
  EXPECT_THROW(run_child({"sh", "-c", "echo line; sleep 1000"}, "", throws, [] { return false; }),
               std::runtime_error);
}

}  // namespace
}  // namespace lowtide
