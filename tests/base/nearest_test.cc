#include "base/nearest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lowtide {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const std::vector<std::string> kModels{"mlp", "vgg16", "resnet18", "resnet50", "unet", "gpt"};

TEST(NearestNames, FindsTypos) {
  EXPECT_THAT(nearest_names("resnet5", kModels), ElementsAre("resnet50", "resnet18"));
  EXPECT_THAT(nearest_names("unte", kModels), ElementsAre("unet"));
  EXPECT_THAT(nearest_names("VGG16", kModels), ElementsAre("vgg16"));
}

TEST(NearestNames, CountsASwapAsOneEdit) {
  EXPECT_THAT(nearest_names("ab", {"ba", "cd"}), ElementsAre("ba"));
}

TEST(NearestNames, IsSilentWhenNothingIsNear) {
  EXPECT_THAT(nearest_names("transformer", kModels), IsEmpty());
  EXPECT_THAT(nearest_names("", kModels), IsEmpty());
  EXPECT_THAT(nearest_names("gpt", {}), IsEmpty());
}

TEST(NearestNames, GivesThreeAtMost) {
  EXPECT_THAT(nearest_names("aaaa", {"aaab", "aaac", "aaad", "aaae"}),
              ElementsAre("aaab", "aaac", "aaad"));
}

TEST(DidYouMean, ReadsAsASentence) {
  EXPECT_EQ(did_you_mean("zzzzzzzz", kModels), "");
  EXPECT_EQ(did_you_mean("unte", kModels), " Did you mean \"unet\"?");
  EXPECT_EQ(did_you_mean("resnet5", kModels), " Did you mean \"resnet50\" or \"resnet18\"?");
  EXPECT_EQ(did_you_mean("aaa", {"aab", "aac", "aad"}),
            " Did you mean \"aab\", \"aac\" or \"aad\"?");
}

}  // namespace
}  // namespace lowtide
