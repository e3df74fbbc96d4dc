#include "packing/csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/throws.h"

namespace lowtide::packing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(BufferCsv, ReadsColumnsInAnyOrder) {
  const BufferTable table = parse_buffers("size,upper,id,lower\r\n12,5,b1,-2\r\n\r\n3,9,b2,5\r\n");
  EXPECT_THAT(table.ids, ElementsAre("b1", "b2"));
  ASSERT_EQ(table.buffers.size(), 2u);
  EXPECT_EQ(table.buffers[0].begin, -2);
  EXPECT_EQ(table.buffers[0].end, 5);
  EXPECT_EQ(table.buffers[0].bytes, 12);
  EXPECT_EQ(table.buffers[1].begin, 5);
  EXPECT_FALSE(table.buffers[1].fixed);
}

TEST(BufferCsv, AnEndIsTheLastTimeIncluded) {
  EXPECT_EQ(parse_buffers("buffer,start,end,size\n0,1,3,8\n").buffers[0].end, 4);
}

TEST(BufferCsv, PassesOverAByteOrderMark) {
  EXPECT_EQ(parse_buffers("\xEF\xBB\xBFid,lower,upper,size\n0,1,3,8\n").buffers[0].bytes, 8);
}

TEST(BufferCsv, ReadsAlignmentsAndFixedOffsets) {
  const auto buffers =
      parse_buffers("id,lower,upper,size,alignment,offset\n"
                    "0,0,1,8,16,32\n1,0,1,8,1,\n2,0,1,8,1,-1\n")
          .buffers;
  EXPECT_EQ(buffers[0].alignment, 16);
  EXPECT_EQ(buffers[0].fixed, 32);
  EXPECT_FALSE(buffers[1].fixed);
  EXPECT_FALSE(buffers[2].fixed);
}

TEST(BufferCsv, WritesWhatItReads) {
  const std::string text = "id,lower,upper,size,offset\nx,0,4,10,0\ny,2,6,5,10\n";
  EXPECT_EQ(to_csv(parse_buffers(text), {{0, 10}, 15}), text);
  const std::string aligned = "id,lower,upper,size,alignment,offset\nx,0,4,10,8,16\n";
  EXPECT_EQ(to_csv(parse_buffers(aligned), {{16}, 26}), aligned);
  const std::string tied = "id,lower,upper,size,same,group,offset\nx,0,4,10,a,,0\ny,2,6,5,,b,10\n";
  EXPECT_EQ(to_csv(parse_buffers(tied), {{0, 10}, 15}), tied);
}

TEST(BufferCsv, ReadsTies) {
  const Ties ties = parse_buffers("group,id,lower,upper,size,same\n,0,0,1,8,a\nb,1,0,1,8,\n").ties;
  EXPECT_THAT(ties.same, ElementsAre("a", ""));
  EXPECT_THAT(ties.groups, ElementsAre("", "b"));
}

TEST(BufferCsv, SaysWhatIsWrongAndWhere) {
  const auto fails = [](const std::string& text, const std::string& message) {
    EXPECT_THROWS_INPUT_ERROR(parse_buffers(text), HasSubstr(message));
  };
  fails("", "line 1");
  fails("id,lower,upper\n", "are needed");
  fails("id,lower,upper,end,size\n", "one of upper and end");
  fails("id,lower,upper,size,size\n", "twice");
  fails("id,lower,upper,size,colour\n", "\"colour\" is unknown");
  fails("id,lower,upper,size\n0,1,2\n", "line 2: 3 values for 4 columns");
  fails("id,lower,upper,size\n0,1,2,3\n1,5,4,3\n", "line 3: the life ends");
  fails("id,lower,upper,size\n0,1,2,x\n", "line 2: \"x\" is not a whole number");
  fails("id,lower,upper,size\n0,1,2,-3\n", "\"-3\"");
  fails("id,lower,upper,size\n0,1,99999999999,3\n", "\"99999999999\"");
  fails("id,lower,upper,size,alignment\n0,1,2,3,6\n", "power of two");
}

}  // namespace
}  // namespace lowtide::packing
