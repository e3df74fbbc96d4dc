#include "strategy/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"
#include "strategy/strategy.h"

namespace lowtide::strategy {
namespace {

using ::testing::HasSubstr;

const StrategyOption kCount = integer_option("count", "how many", 4, {1, 100}, "segments");
const StrategyOption kShare = number_option("share", "of the budget", 0.5, {0, 1});
const StrategyOption kRule = choice_option("rule", "which value", {"oldest", "largest"});
const StrategyOption kSwitch = on_off_option("again", "whether to go on", true);

std::string refusal(const StrategyOption& option, const OptionValue& given) {
  try {
    option_number(option, given, "test");
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Options, AreNumbersOrTheirTexts) {
  EXPECT_EQ(option_number(kCount, 7, "test"), 7);
  EXPECT_EQ(option_number(kCount, "7", "test"), 7);
  EXPECT_EQ(option_number(kShare, 0.25, "test"), 0.25);
  EXPECT_EQ(option_number(kShare, "1e-3", "test"), 0.001);
}

TEST(Options, AreChosenByNameOrPosition) {
  EXPECT_EQ(option_number(kRule, "largest", "test"), 1);
  EXPECT_EQ(option_number(kRule, 1, "test"), 1);
  EXPECT_EQ(format_value(kRule, 1), "largest");
}

TEST(Options, AreSwitchedOnAndOff) {
  for (const OptionValue& on : {OptionValue("on"), OptionValue("true"), OptionValue("1"),
                                OptionValue(true), OptionValue(1)}) {
    EXPECT_EQ(option_number(kSwitch, on, "test"), 1);
  }
  for (const OptionValue& off : {OptionValue("off"), OptionValue("false"), OptionValue(false)}) {
    EXPECT_EQ(option_number(kSwitch, off, "test"), 0);
  }
  EXPECT_EQ(format_value(kSwitch, 0), "off");
}

TEST(Options, SayWhatIsAllowed) {
  EXPECT_THAT(refusal(kCount, 2.5),
              HasSubstr("\"count\" of test must be a whole number from 1 to 100, not 2.5"));
  EXPECT_THAT(refusal(kCount, 101), HasSubstr("not 101"));
  EXPECT_THAT(refusal(kCount, "many"), HasSubstr("not many"));
  EXPECT_THAT(refusal(kCount, "7x"), HasSubstr("not 7x"));
  EXPECT_THAT(refusal(kShare, std::numeric_limits<double>::quiet_NaN()), HasSubstr("0 to 1"));
  EXPECT_THAT(refusal(kRule, "largst"),
              HasSubstr("must be oldest or largest, not largst. Did you mean \"largest\"?"));
  EXPECT_THAT(refusal(kRule, 2), HasSubstr("not 2"));
  EXPECT_THAT(refusal(kRule, 0.5), HasSubstr("not 0.5"));
  EXPECT_THAT(refusal(kSwitch, "maybe"), HasSubstr("must be on or off, not maybe"));
  EXPECT_THAT(refusal(kSwitch, 2), HasSubstr("not 2"));
}

TEST(Options, OfEveryStrategyAcceptTheTextOfTheirDefault) {
  for (const Strategy& strategy : strategies()) {
    for (const StrategyOption& option : strategy.options) {
      EXPECT_EQ(option_number(option, format_value(option, option.default_value), strategy.name),
                option.default_value)
          << strategy.name << " " << option.name;
    }
  }
}

}  // namespace
}  // namespace lowtide::strategy
