#include "cli/memory_row.h"

#include <algorithm>

#include "cli/output.h"
#include "cli/terminal.h"
#include "report/sparkline.h"

namespace lowtide::cli {

void add_memory_row(report::Table& table, const report::MemoryCurve& curve, Bytes budget) {
  constexpr std::size_t kMostColumns = 40, kIndent = 2;
  const std::size_t columns = std::min(kMostColumns, output_columns() - kIndent);
  const report::Spark spark = shows_blocks() ? report::Spark::blocks : report::Spark::ascii;
  const std::string line = report::sparkline(curve, budget, columns, spark);
  if (!line.empty()) table.add({"budget used over a step", line});
}

}  // namespace lowtide::cli
