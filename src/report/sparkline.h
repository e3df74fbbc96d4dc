#pragma once

#include <cstddef>
#include <string>

#include "report/memory_plot.h"

namespace lowtide::report {

enum class Spark { blocks, ascii };  ///< U+2581 to U+2588, or letters that every terminal has

/// A curve in one line: each of `columns` characters is the most that is in use in its share of the
/// time, from nothing to `full`. "" for a curve without time.
std::string sparkline(const MemoryCurve& curve, Bytes full, std::size_t columns, Spark spark);

}  // namespace lowtide::report
