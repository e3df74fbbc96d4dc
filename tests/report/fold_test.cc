#include "report/fold.h"

#include <gtest/gtest.h>

namespace lowtide::report {
namespace {

TEST(Fold, LeavesWhatFits) {
  EXPECT_EQ(fold("a line\n\n  another\n", 10), "a line\n\n  another\n");
  EXPECT_EQ(fold("no newline", 10), "no newline");
  EXPECT_EQ(fold("", 10), "");
}

TEST(Fold, BreaksAtBlanksAndKeepsTheIndentation) {
  EXPECT_EQ(fold("one two three four\n", 10), "one two\nthree four\n");
  EXPECT_EQ(fold("  one two three\n", 10), "  one two\n  three\n");
  EXPECT_EQ(fold("  one two three\n", 10, 2), "  one two\n    three\n");
}

TEST(Fold, BreaksAWordThatIsTooLong) {
  EXPECT_EQ(fold("a abcdefghijklmn", 10), "a\nabcdefghij\nklmn");
}

TEST(Fold, CountsAndCutsCharactersNotBytes) {
  const std::string blocks = "\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588\u2588";
  EXPECT_EQ(width(blocks), 9U);
  EXPECT_EQ(cut(blocks, 2), "\u2581\u2582");
  EXPECT_EQ(fold(blocks, 8), "\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588\n\u2588");
}

TEST(Fold, NoWidthIsTooSmall) {
  for (const std::size_t columns : {0, 1, 7}) {
    EXPECT_EQ(fold("        deep and long", columns), fold("        deep and long", 8));
  }
}

}  // namespace
}  // namespace lowtide::report
