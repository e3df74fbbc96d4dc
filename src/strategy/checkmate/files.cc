#include "strategy/checkmate/files.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>

#include "base/error.h"

namespace lowtide::strategy::checkmate {
namespace {

/// The program by columns, the order of MPS.
struct Columns {
  std::vector<int> begin;
  std::vector<int> row;
  std::vector<double> coefficient;

  explicit Columns(const solver::LinearProgram& program)
      : begin(program.num_columns() + 1),
        row(program.column.size()),
        coefficient(program.column.size()) {
    for (int j : program.column) ++begin[j + 1];
    for (int j = 0; j < program.num_columns(); ++j) begin[j + 1] += begin[j];
    std::vector<int> next(begin.begin(), begin.end() - 1);
    for (int r = 0; r < program.num_rows(); ++r) {
      for (int k = program.row_begin[r]; k < program.row_begin[r + 1]; ++k) {
        const int at = next[program.column[k]]++;
        row[at] = r;
        coefficient[at] = program.coefficient[k];
      }
    }
  }
};

/// Rows are upper limits or equalities.
void append_rows(std::string& text, const solver::LinearProgram& program) {
  text += "ROWS\n N cost\n";
  for (int r = 0; r < program.num_rows(); ++r) {
    const char kind = std::isfinite(program.row_lower[r]) ? 'E' : 'L';
    fmt::format_to(std::back_inserter(text), " {} r{}\n", kind, r);
  }
}

void append_columns(std::string& text, const StageModel& model) {
  const solver::LinearProgram& program = model.program();
  const Columns columns(program);
  auto out = std::back_inserter(text);
  text += "COLUMNS\n";
  bool integer = false;
  for (int j = 0; j < program.num_columns(); ++j) {
    if (const bool now = program.integer[j] != 0; now != integer) {
      integer = now;
      fmt::format_to(out, " M{} 'MARKER' '{}'\n", j, now ? "INTORG" : "INTEND");
    }
    const std::string name = model.column_name(j);
    // A column without any entry must be listed too.
    if (program.cost[j] != 0 || columns.begin[j] == columns.begin[j + 1]) {
      fmt::format_to(out, " {} cost {}\n", name, program.cost[j]);
    }
    for (int k = columns.begin[j]; k < columns.begin[j + 1]; ++k) {
      fmt::format_to(out, " {} r{} {}\n", name, columns.row[k], columns.coefficient[k]);
    }
  }
  if (integer) text += " MEND 'MARKER' 'INTEND'\n";
}

void append_sides(std::string& text, const solver::LinearProgram& program) {
  auto out = std::back_inserter(text);
  // By convention the right side of the objective is minus its constant.
  fmt::format_to(out, "RHS\n RHS cost {}\n", -program.offset);
  for (int r = 0; r < program.num_rows(); ++r) {
    if (program.row_upper[r] != 0) fmt::format_to(out, " RHS r{} {}\n", r, program.row_upper[r]);
  }
}

void append_bounds(std::string& text, const StageModel& model) {
  const solver::LinearProgram& program = model.program();
  auto out = std::back_inserter(text);
  text += "BOUNDS\n";
  for (int j = 0; j < program.num_columns(); ++j) {
    const std::string name = model.column_name(j);
    if (program.lower[j] == program.upper[j]) {
      fmt::format_to(out, " FX B {} {}\n", name, program.lower[j]);
    } else {
      fmt::format_to(out, " LO B {} {}\n UP B {} {}\n", name, program.lower[j], name,
                     program.upper[j]);
    }
  }
}

constexpr std::string_view kBlanks = " \t\r";

std::vector<std::string_view> words(std::string_view line) {
  std::vector<std::string_view> found;
  for (;;) {
    const std::size_t begin = line.find_first_not_of(kBlanks);
    if (begin == std::string_view::npos) return found;
    line.remove_prefix(begin);
    const std::size_t end = std::min(line.find_first_of(kBlanks), line.size());
    found.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
}

/// The value of `key="..."`, or an empty text.
std::string_view attribute(std::string_view line, std::string_view key) {
  const std::string quoted = fmt::format(" {}=\"", key);
  const std::size_t at = line.find(quoted);
  if (at == std::string_view::npos) return {};
  line.remove_prefix(at + quoted.size());
  return line.substr(0, line.find('"'));
}

struct Entry {
  std::string_view name;
  std::string_view value;
};

/// The name and value of a run on the line; empty when there is none.
Entry run_entry(std::string_view line) {
  if (line.find("<variable") != std::string_view::npos) {
    const std::string_view name = attribute(line, "name");
    if (name.starts_with("R_")) return {name, attribute(line, "value")};
    return {};
  }
  const std::vector<std::string_view> found = words(line);
  for (std::size_t k = 0; k < std::min<std::size_t>(found.size(), 2); ++k) {
    if (!found[k].starts_with("R_")) continue;
    return {found[k], k + 1 < found.size() ? found[k + 1] : std::string_view()};
  }
  return {};
}

}  // namespace

std::string format_mps(const StageModel& model, std::string_view name) {
  std::string text = fmt::format("* costs in thousandths of what every plan costs, bytes as shares "
                                 "of what the budget leaves\nNAME {}\n",
                                 name);
  std::ranges::replace(text.begin() + static_cast<std::ptrdiff_t>(text.find("NAME ")) + 5,
                       text.end() - 1, ' ', '_');
  append_rows(text, model.program());
  append_columns(text, model);
  append_sides(text, model.program());
  append_bounds(text, model);
  return text + "ENDATA\n";
}

std::vector<remat::Event> parse_solution(const StageModel& model, std::string_view text,
                                         std::string_view source) {
  std::vector<double> values(model.program().num_columns());
  bool any = false;
  int number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    // HiGHS lists reduced costs under the same names after the solution.
    if (line.starts_with("# Dual")) break;
    const Entry entry = run_entry(line);
    if (entry.name.empty()) continue;
    const std::optional<int> column = model.find_run(entry.name);
    double value = 0;
    const auto parsed =
        std::from_chars(entry.value.data(), entry.value.data() + entry.value.size(), value);
    if (!column || parsed.ec != std::errc() || parsed.ptr != entry.value.end()) {
      throw InputError(fmt::format(
          "{}, line {}: {} \"{}\" is not a run of this graph's model with its value. Is the "
          "solution for another graph or budget?",
          source, number, entry.name, entry.value));
    }
    if (!std::isfinite(value)) {
      throw InputError(fmt::format("{}, line {}: {} is \"{}\", and a run is between 0 and 1.",
                                   source, number, entry.name, entry.value));
    }
    values[*column] = value;
    any = true;
  }
  if (!any) {
    throw InputError(fmt::format("{} lists no variable R_..., so it is no solution of a model that "
                                 "lowtide plan --export-mps wrote.",
                                 source));
  }
  return model.events_of(values);
}

}  // namespace lowtide::strategy::checkmate
