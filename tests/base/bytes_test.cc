#include "base/bytes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"

namespace lowtide {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr Bytes kMost = std::numeric_limits<Bytes>::max();

TEST(FormatBytes, GivesThreeFigures) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(12), "12 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1.00 KiB");
  EXPECT_EQ(format_bytes(3LL << 29), "1.50 GiB");
  EXPECT_EQ(format_bytes(800LL << 20), "800 MiB");
  EXPECT_EQ(format_bytes(12'345'678), "11.8 MiB");
  EXPECT_EQ(format_bytes(-(3LL << 29)), "-1.50 GiB");
}

TEST(FormatBytes, RoundsUpIntoTheNextUnit) {
  EXPECT_EQ(format_bytes((1LL << 20) - 1), "1.00 MiB");
  EXPECT_EQ(format_bytes(10 * 1024 - 1), "10.0 KiB");
  EXPECT_EQ(format_bytes(100 * 1024 - 1), "100 KiB");
}

TEST(FormatBytes, HoldsTheExtremes) {
  EXPECT_EQ(format_bytes(kMost), "8192 PiB");
  EXPECT_EQ(format_bytes(std::numeric_limits<Bytes>::min()), "-8192 PiB");
}

Bytes parsed(std::string_view text, Bytes keep_all = 1000) {
  return parse_budget(text).resolve(keep_all);
}

TEST(ParseBudget, ReadsAmounts) {
  EXPECT_EQ(parsed("800000000"), 800'000'000);
  EXPECT_EQ(parsed("1"), 1);
  EXPECT_EQ(parsed("7B"), 7);
  EXPECT_EQ(parsed("3KB"), 3'000);
  EXPECT_EQ(parsed("512MB"), 512'000'000);
  EXPECT_EQ(parsed("2GB"), 2'000'000'000);
  EXPECT_EQ(parsed("3KiB"), 3 * 1024);
  EXPECT_EQ(parsed("5MiB"), 5LL << 20);
  EXPECT_EQ(parsed("1.5GiB"), 3LL << 29);
  EXPECT_EQ(parsed(" 1.5 gib "), 3LL << 29);
  EXPECT_EQ(parsed("0.1KB"), 100);
}

TEST(ParseBudget, IsExactUpTo63Bits) {
  EXPECT_EQ(parsed("9223372036854775807"), kMost);
  EXPECT_EQ(parsed("9007199254740993"), 9007199254740993);  // no double holds it
}

TEST(ParseBudget, ReadsShares) {
  EXPECT_EQ(parsed("60%", 1000), 600);
  EXPECT_EQ(parsed("100%", 12345), 12345);
  EXPECT_EQ(parsed("12.5 %", 1000), 125);
}

struct Refused {
  const char* text;
  const char* why;
};

class ParseBudgetRefuses : public ::testing::TestWithParam<Refused> {};

TEST_P(ParseBudgetRefuses, AndSaysWhy) {
  const auto [text, why] = GetParam();
  EXPECT_THAT([&] { parse_budget(text); },
              ThrowsMessage<InputError>(::testing::AllOf(HasSubstr(why), HasSubstr("1.5GiB"))));
}

INSTANTIATE_TEST_SUITE_P(
    All, ParseBudgetRefuses,
    ::testing::Values(Refused{"", "is empty"}, Refused{"  ", "is empty"},
                      Refused{"-5", "is negative"}, Refused{"-60%", "is negative"},
                      Refused{"0", "leaves no memory"}, Refused{"0GiB", "leaves no memory"},
                      Refused{"0%", "leaves no memory"}, Refused{"0.4", "leaves no memory"},
                      Refused{"120%", "more than keep-all"}, Refused{"lots", "is not a number"},
                      Refused{"%", "is not a number"}, Refused{"1.2.3GB", "is not a number"},
                      Refused{".", "is not a number"}, Refused{"5 parsecs", "unit \"parsecs\""},
                      Refused{"5G", "unit \"G\""}, Refused{"nan", "is not a number"},
                      Refused{"inf", "is not a number"}, Refused{"1e9", "unit \"e9\""},
                      Refused{"9223372036854775808", "larger than any memory"},
                      Refused{"8388608TiB", "larger than any memory"},
                      Refused{"99999999999999999999999GiB", "larger than any memory"}));

TEST(AlignUp, RoundsToMultiples) {
  EXPECT_EQ(align_up(0, 64), 0);
  EXPECT_EQ(align_up(1, 64), 64);
  EXPECT_EQ(align_up(64, 64), 64);
  EXPECT_EQ(align_up(65, 64), 128);
}

}  // namespace
}  // namespace lowtide
