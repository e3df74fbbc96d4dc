#pragma once

#include <string>
#include <utility>
#include <vector>

#include "report/fold.h"

namespace lowtide::report {

/// Columns of text for people, as wide as their widest cell, two spaces apart. The first column is
/// left-aligned; the others are right-aligned by default.
///
///     Table table({"budget", "peak"});
///     table.add({"60%", "1.21 GiB"});
///     std::string text = table.text();
class Table {
 public:
  enum class Align { left, right };

  explicit Table(std::vector<std::string> header, Align others = Align::right)
      : rows_{std::move(header)}, aligns_(rows_.front().size(), others) {
    aligns_.front() = Align::left;
  }

  Table& align(std::size_t column, Align align) {
    aligns_[column] = align;
    return *this;
  }
  /// A row shorter than the header leaves its last cells empty; a longer one throws
  /// std::logic_error.
  void add(std::vector<std::string> row);
  /// Each line ends with a newline and has no blanks before it. Where the lines would be wider than
  /// `columns`, each row is a paragraph: its first cell, and below it the others, named by the
  /// header if there are several.
  std::string text(std::size_t columns = kAnyWidth) const;

 private:
  std::string lines() const;
  std::string paragraphs(std::size_t columns) const;

  std::vector<std::vector<std::string>> rows_;
  std::vector<Align> aligns_;
};

}  // namespace lowtide::report
