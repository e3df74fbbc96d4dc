#include "report/sparkline.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

namespace lowtide::report {
namespace {

constexpr std::array<std::string_view, 8> kBlocks = {"\u2581", "\u2582", "\u2583", "\u2584",
                                                     "\u2585", "\u2586", "\u2587", "\u2588"};
constexpr std::array<std::string_view, 8> kLetters = {"_", ".", ":", "-", "=", "+", "*", "#"};

/// The column of a moment; one at the very end is in the last.
std::size_t column_of(double time, double end, std::size_t columns) {
  const auto column = static_cast<std::size_t>(time / end * static_cast<double>(columns));
  return std::min(column, columns - 1);
}

double begin_of(std::size_t column, double end, std::size_t columns) {
  return end * static_cast<double>(column) / static_cast<double>(columns);
}

std::vector<Bytes> highest(const MemoryCurve& curve, std::size_t columns) {
  std::vector<Bytes> most(columns, 0);
  for (std::size_t i = 0; i < curve.memory.size(); ++i) {
    const double until = i + 1 < curve.begin.size() ? curve.begin[i + 1] : curve.end;
    std::size_t column = column_of(curve.begin[i], curve.end, columns);
    do {
      most[column] = std::max(most[column], curve.memory[i]);
      ++column;
    } while (column < columns && begin_of(column, curve.end, columns) < until);
  }
  return most;
}

}  // namespace

std::string sparkline(const MemoryCurve& curve, Bytes full, std::size_t columns, Spark spark) {
  if (curve.end <= 0 || full <= 0 || columns == 0) return "";
  const auto& signs = spark == Spark::blocks ? kBlocks : kLetters;
  std::string line;
  for (const Bytes bytes : highest(curve, columns)) {
    const double share = static_cast<double>(bytes) / static_cast<double>(full);
    const auto level = static_cast<std::size_t>(share * static_cast<double>(signs.size()));
    line += signs[std::min(level, signs.size() - 1)];
  }
  return line;
}

}  // namespace lowtide::report
