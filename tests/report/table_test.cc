#include "report/table.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace lowtide::report {
namespace {

TEST(Table, AlignsColumns) {
  Table table({"budget", "peak", "strategy"});
  table.align(2, Table::Align::left);
  table.add({"60%", "1.21 GiB", "revolve"});
  table.add({"keep-all", "2 GiB"});
  EXPECT_EQ(table.text(),
            "budget        peak  strategy\n"
            "60%       1.21 GiB  revolve\n"
            "keep-all     2 GiB\n");
}

TEST(Table, AlignsAllOthersAtOnce) {
  Table table({"a", "bb"}, Table::Align::left);
  table.add({"long", "x"});
  EXPECT_EQ(table.text(), "a     bb\nlong  x\n");
}

TEST(Table, CountsCharactersNotBytes) {
  Table table({"name", "n"});
  table.add({"caf\xc3\xa9", "1"});
  EXPECT_EQ(table.text(), "name  n\ncaf\xc3\xa9  1\n");
}

TEST(Table, RowsBecomeParagraphsWhereTheLinesAreTooWide) {
  Table table({"budget", "peak", "status"});
  table.add({"60%", "1.21 GiB", "feasible: needs 2 GiB"});
  table.add({"keep-all", "", "optimal"});
  EXPECT_EQ(table.text(20),
            "60%\n"
            "  peak: 1.21 GiB\n"
            "  status: feasible:\n"
            "    needs 2 GiB\n"
            "keep-all\n"
            "  status: optimal\n");
  EXPECT_EQ(table.text(200), table.text());
}

TEST(Table, PairsHaveTheHeaderAmongThem) {
  Table table({"steps done", "10 (complete)"}, Table::Align::left);
  table.add({"strategy", "search (optimal)"});
  EXPECT_EQ(table.text(20), "steps done\n  10 (complete)\nstrategy\n  search (optimal)\n");
}

TEST(Table, RefusesCellsWithoutAColumn) {
  Table table({"one"});
  EXPECT_THROW(table.add({"1", "2"}), std::logic_error);
}

}  // namespace
}  // namespace lowtide::report
