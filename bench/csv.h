#pragma once

#include <sstream>
#include <string>
#include <vector>

namespace lowtide::bench {

/// The cells of a line of a CSV file without quotes, as those of bench/peers are.
inline std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream stream(line);
  for (std::string cell; std::getline(stream, cell, ',');) cells.push_back(cell);
  return cells;
}

}  // namespace lowtide::bench
