#include "base/bytes.h"

#include <gtest/gtest.h>

#include <limits>

namespace lowtide {
namespace {

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

TEST(AlignUp, RoundsToMultiples) {
  EXPECT_EQ(align_up(0, 64), 0);
  EXPECT_EQ(align_up(1, 64), 64);
  EXPECT_EQ(align_up(64, 64), 64);
  EXPECT_EQ(align_up(65, 64), 128);
}

}  // namespace
}  // namespace lowtide
