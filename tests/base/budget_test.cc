#include "base/budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"

namespace lowtide {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr Bytes kMostOfABudget = std::numeric_limits<Bytes>::max();

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
  EXPECT_EQ(parsed("9223372036854775807"), kMostOfABudget);
  EXPECT_EQ(parsed("9007199254740993"), 9007199254740993);  // no double represents it
}

TEST(ParseBudget, ReadsShares) {
  EXPECT_EQ(parsed("60%", 1000), 600);
  EXPECT_EQ(parsed("100%", 12345), 12345);
  EXPECT_EQ(parsed("12.5 %", 1000), 125);
}

struct BadBudget {
  const char* text;
  const char* why;
};

class ParseBudgetRefuses : public ::testing::TestWithParam<BadBudget> {};

TEST_P(ParseBudgetRefuses, AndSaysWhy) {
  const auto [text, why] = GetParam();
  EXPECT_THAT([&] { parse_budget(text); },
              ThrowsMessage<InputError>(::testing::AllOf(HasSubstr(why), HasSubstr("1.5GiB"))));
}

INSTANTIATE_TEST_SUITE_P(
    All, ParseBudgetRefuses,
    ::testing::Values(BadBudget{"", "is empty"}, BadBudget{"  ", "is empty"},
                      BadBudget{"-5", "is negative"}, BadBudget{"-60%", "is negative"},
                      BadBudget{"0", "leaves no memory"}, BadBudget{"0GiB", "leaves no memory"},
                      BadBudget{"0%", "leaves no memory"}, BadBudget{"0.4", "leaves no memory"},
                      BadBudget{"120%", "more than keep-all"}, BadBudget{"lots", "is not a number"},
                      BadBudget{"%", "is not a number"}, BadBudget{"1.2.3GB", "is not a number"},
                      BadBudget{".", "is not a number"}, BadBudget{"5 parsecs", "unit \"parsecs\""},
                      BadBudget{"5G", "unit \"G\""}, BadBudget{"nan", "is not a number"},
                      BadBudget{"inf", "is not a number"}, BadBudget{"1e9", "unit \"e9\""},
                      BadBudget{"9223372036854775808", "larger than any memory"},
                      BadBudget{"8388608TiB", "larger than any memory"},
                      BadBudget{"99999999999999999999999GiB", "larger than any memory"}));

TEST(ParseAmount, ReadsBytesAndProposesNoShare) {
  EXPECT_EQ(parse_amount("1.5KiB", "--capacity"), 1536);
  for (const char* text : {"0", "60%", "", "-5", "5 parsecs"}) {
    EXPECT_THAT([&] { parse_amount(text, "--capacity"); },
                ThrowsMessage<InputError>(::testing::AllOf(::testing::StartsWith("--capacity"),
                                                           HasSubstr("1.5GiB"),
                                                           ::testing::Not(HasSubstr("keep-all")))));
  }
}

TEST(FormatBudget, GivesWhatParsesToTheSame) {
  for (const char* text : {"1", "512MB", "1.5GiB", "60%", "33.3%", "100%", "0.07%"}) {
    const Budget budget = parse_budget(text);
    const Budget again = parse_budget(format_budget(budget));
    for (const Bytes peak : {Bytes{1}, Bytes{999'999'937}, Bytes{1} << 50}) {
      EXPECT_EQ(again.resolve(peak), budget.resolve(peak)) << text;
    }
  }
}

TEST(Budget, IsWithoutALimitUnlessItIsGivenOne) {
  EXPECT_FALSE(Budget().is_limited());
  EXPECT_EQ(Budget().resolve(1000), kUnlimitedBytes);
  EXPECT_EQ(format_budget(Budget()), "");
  EXPECT_TRUE(parse_budget("60%").is_limited());
}

}  // namespace
}  // namespace lowtide
