#pragma once

#include "base/bytes.h"
#include "report/memory_plot.h"
#include "report/table.h"

namespace lowtide::cli {

/// Adds a row with a curve in one line: how much of the budget is in use over a step. Letters stand
/// for its height where standard output shows no blocks.
void add_memory_row(report::Table& table, const report::MemoryCurve& curve, Bytes budget);

}  // namespace lowtide::cli
