#include "report/table.h"

#include <algorithm>
#include <stdexcept>

namespace lowtide::report {
namespace {

bool fits(const std::string& lines, std::size_t columns) {
  for (std::size_t begin = 0; begin < lines.size();) {
    const std::size_t end = lines.find('\n', begin);
    if (width(std::string_view(lines).substr(begin, end - begin)) > columns) return false;
    begin = end + 1;
  }
  return true;
}

}  // namespace

void Table::add(std::vector<std::string> row) {
  if (row.size() > aligns_.size()) throw std::logic_error("a row has more cells than the header");
  row.resize(aligns_.size());
  rows_.push_back(std::move(row));
}

std::string Table::text(std::size_t columns) const {
  const std::string text = lines();
  return fits(text, columns) ? text : paragraphs(columns);
}

/// Two columns are a name and what is so named, in the header too.
std::string Table::paragraphs(std::size_t columns) const {
  const std::vector<std::string>& header = rows_.front();
  const bool are_pairs = header.size() == 2;
  std::string text;
  for (std::size_t row = are_pairs ? 0 : 1; row < rows_.size(); ++row) {
    text += rows_[row].front() + "\n";
    for (std::size_t i = 1; i < header.size(); ++i) {
      const std::string& cell = rows_[row][i];
      const bool has_name = !are_pairs && !header[i].empty();
      if (!cell.empty()) text += "  " + (has_name ? header[i] + ": " : "") + cell + "\n";
    }
  }
  return fold(text, columns, 2);
}

std::string Table::lines() const {
  std::vector<std::size_t> widths(aligns_.size());
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width(row[i]));
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - width(row[i]), ' ');
      line += i == 0 ? "" : "  ";
      line += aligns_[i] == Align::left ? row[i] + padding : padding + row[i];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace lowtide::report
