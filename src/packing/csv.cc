#include "packing/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/file.h"

namespace lowtide::packing {
namespace {

enum class Column : std::uint8_t { id, lower, upper, last, size, alignment, offset, same, group };

using Name = std::pair<std::string_view, Column>;
constexpr std::array kNames{Name{"id", Column::id},         Name{"buffer", Column::id},
                            Name{"buffer_id", Column::id},  Name{"lower", Column::lower},
                            Name{"start", Column::lower},   Name{"begin", Column::lower},
                            Name{"upper", Column::upper},   Name{"end", Column::last},
                            Name{"size", Column::size},     Name{"alignment", Column::alignment},
                            Name{"offset", Column::offset}, Name{"same", Column::same},
                            Name{"group", Column::group}};

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(trimmed(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return parts;
}

std::vector<Column> columns_of(std::string_view header) {
  std::vector<Column> columns;
  for (std::string_view name : split(header, ',')) {
    const auto known = std::ranges::find(kNames, name, &Name::first);
    if (known == kNames.end()) {
      throw InputError(fmt::format(
          "line 1: the column \"{}\" is unknown; known are id, lower, upper (or end, the last time "
          "included), size, alignment, offset, same and group.",
          name));
    }
    if (std::ranges::count(columns, known->second) != 0) {
      throw InputError(fmt::format("line 1: the column \"{}\" is there twice.", name));
    }
    columns.push_back(known->second);
  }
  const auto lacks = [&](Column column) { return std::ranges::count(columns, column) == 0; };
  if (lacks(Column::id) || lacks(Column::lower) || lacks(Column::size) ||
      lacks(Column::upper) == lacks(Column::last)) {
    throw InputError(
        "line 1: the columns id, lower, size and one of upper and end are needed; add them.");
  }
  return columns;
}

/// The cells of a line, and its number for error messages.
struct Line {
  std::size_t number;
  std::vector<std::string_view> cells;
};

std::int64_t number_in(const Line& line, std::size_t cell, std::int64_t least, std::int64_t most) {
  const std::string_view text = line.cells[cell];
  std::int64_t value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = !text.empty() && stop == text.data() + text.size() && error == std::errc();
  if (whole && value >= least && value <= most) return value;
  throw InputError(fmt::format("line {}: \"{}\" is not a whole number from {} to {}.", line.number,
                               text, least, most));
}

void set(Buffer& buffer, Column column, const Line& line, std::size_t cell) {
  constexpr std::int64_t kFirst = std::numeric_limits<std::int32_t>::min();
  constexpr std::int64_t kLast = std::numeric_limits<std::int32_t>::max();
  constexpr std::int64_t kMost = std::int64_t{1} << 50;  // sums of thousands stay within 64 bits
  switch (column) {
    case Column::id:
    case Column::same:
    case Column::group: break;
    case Column::lower:
      buffer.begin = static_cast<std::int32_t>(number_in(line, cell, kFirst, kLast));
      break;
    case Column::upper:
      buffer.end = static_cast<std::int32_t>(number_in(line, cell, kFirst, kLast));
      break;
    case Column::last:
      buffer.end = static_cast<std::int32_t>(number_in(line, cell, kFirst, kLast - 1) + 1);
      break;
    case Column::size: buffer.bytes = number_in(line, cell, 0, kMost); break;
    case Column::alignment: buffer.alignment = number_in(line, cell, 1, kMost); break;
    case Column::offset:
      if (!line.cells[cell].empty() && line.cells[cell] != "-1") {
        buffer.fixed = number_in(line, cell, 0, kMost);
      }
      break;
  }
}

/// The list for the cells of a column of names; nullptr for a column of numbers.
std::vector<std::string>* names_of(BufferTable& table, Column column) {
  switch (column) {
    case Column::id: return &table.ids;
    case Column::same: return &table.ties.same;
    case Column::group: return &table.ties.groups;
    default: return nullptr;
  }
}

void add(BufferTable& table, std::span<const Column> columns, const Line& line) {
  if (line.cells.size() != columns.size()) {
    throw InputError(fmt::format("line {}: {} values for {} columns.", line.number,
                                 line.cells.size(), columns.size()));
  }
  Buffer buffer;
  for (std::size_t cell = 0; cell < columns.size(); ++cell) {
    set(buffer, columns[cell], line, cell);
    if (auto* const names = names_of(table, columns[cell])) names->emplace_back(line.cells[cell]);
  }
  if (buffer.begin > buffer.end) {
    throw InputError(fmt::format("line {}: the life ends at {}, before it begins at {}.",
                                 line.number, buffer.end, buffer.begin));
  }
  if (!std::has_single_bit(static_cast<std::uint64_t>(buffer.alignment))) {
    throw InputError(fmt::format("line {}: the alignment {} is no power of two.", line.number,
                                 buffer.alignment));
  }
  table.buffers.push_back(buffer);
}

BufferTable parse(std::string_view text) {
  BufferTable table;
  std::vector<Column> columns;
  std::size_t number = 0;
  for (std::string_view content : split(text, '\n')) {
    ++number;
    if (number == 1) {
      columns = columns_of(content);
    } else if (!content.empty()) {
      add(table, columns, {number, split(content, ',')});
    }
  }
  return table;
}

}  // namespace

BufferTable parse_buffers(std::string_view text, std::string_view source) {
  try {
    return parse(without_byte_order_mark(text));
  } catch (const InputError& error) {
    if (source.empty()) throw;
    throw InputError(fmt::format("{}: {}", source, error.what()));
  }
}

BufferTable read_buffers(const std::filesystem::path& path) {
  return parse_buffers(read_file(path), path.string());
}

std::string to_csv(const BufferTable& table, const Packing& packing) {
  const auto& [same, groups] = table.ties;
  const bool aligned =
      std::ranges::any_of(table.buffers, [](const Buffer& b) { return b.alignment > 1; });
  std::string text = fmt::format("id,lower,upper,size,{}{}{}offset\n", aligned ? "alignment," : "",
                                 same.empty() ? "" : "same,", groups.empty() ? "" : "group,");
  for (std::size_t i = 0; i < table.buffers.size(); ++i) {
    const Buffer& buffer = table.buffers[i];
    text += fmt::format("{},{},{},{},", table.ids[i], buffer.begin, buffer.end, buffer.bytes);
    if (aligned) text += fmt::format("{},", buffer.alignment);
    for (const auto* names : {&same, &groups}) {
      if (!names->empty()) text += (*names)[i] + ',';
    }
    text += fmt::format("{}\n", packing.offsets[i]);
  }
  return text;
}

}  // namespace lowtide::packing
