#include "report/estimate_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "report/table.h"

namespace lowtide::report {
namespace {

using estimate::Estimate;
using estimate::Part;

bool is_number(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

/// "blocks.*.attn" of "blocks.11.attn"
std::string without_numbers(std::string_view path) {
  std::vector<std::string_view> names;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    const std::string_view name = path.substr(begin, end - begin);
    names.push_back(is_number(name) ? "*" : name);
    begin = end + 1;
  }
  return fmt::format("{}", fmt::join(names, "."));
}

struct Row {
  std::string name;
  Bytes bytes = 0;
  int layers = 0;
};

std::vector<Row> rows_of(const std::vector<Part>& layers) {
  std::vector<Row> rows;
  for (const Part& layer : layers) {
    const std::string name = without_numbers(layer.name);
    auto row = std::ranges::find(rows, name, &Row::name);
    if (row == rows.end()) row = rows.insert(row, {name});
    row->bytes += layer.bytes;
    ++row->layers;
  }
  std::ranges::stable_sort(rows, std::greater<>(), &Row::bytes);
  return rows;
}

std::string activations_table(const std::vector<Part>& parts, std::string_view title,
                              std::string_view counted, int most, std::size_t columns) {
  if (parts.empty()) return "";
  Table table({std::string(title), "bytes", std::string(counted)});
  Bytes rest = 0;
  int left_out = 0;
  for (const Row& row : rows_of(parts)) {
    if (most-- > 0) {
      table.add({row.name.empty() ? "(outside of all)" : row.name, format_bytes(row.bytes),
                 counted.empty() ? "" : fmt::format("{}", row.layers)});
    } else {
      rest += row.bytes;
      ++left_out;
    }
  }
  if (left_out > 0) table.add({fmt::format("and {} more", left_out), format_bytes(rest)});
  return "\n" + table.text(columns);
}

std::string parts_table(const Estimate& estimate, std::size_t columns) {
  Table table({"part", "in full", "at the peak"});
  std::vector<Part> all = estimate.whole;
  for (const Part& part : estimate.at_peak) {
    if (estimate::bytes_of(all, part.name) == 0) all.push_back({part.name, 0});
  }
  for (const Part& part : all) {
    const Bytes at_peak = estimate::bytes_of(estimate.at_peak, part.name);
    table.add({part.name, part.bytes > 0 ? format_bytes(part.bytes) : "-",
               at_peak > 0 ? format_bytes(at_peak) : "-"});
  }
  table.add({"peak", "", format_bytes(estimate.peak_bytes)});
  return table.text(columns);
}

/// "174.6 billion parameters"
std::string parameters_text(std::int64_t count) {
  constexpr double kMillion = 1e6, kBillion = 1e9;
  const auto real = static_cast<double>(count);
  if (real >= kBillion) return fmt::format("{:.4g} billion parameters", real / kBillion);
  if (real >= kMillion) return fmt::format("{:.4g} million parameters", real / kMillion);
  return fmt::format("{} parameters", count);
}

std::string headline(const Estimate& estimate) {
  const std::string where = estimate.peak_op.empty()
                                ? std::string()
                                : fmt::format(" in {} ({})", estimate.peak_op, estimate.peak_phase);
  return fmt::format("{}: {}, peak {}{}\n\n", estimate.name, parameters_text(estimate.parameters),
                     format_bytes(estimate.peak_bytes), where);
}

std::string in_place_text(const Estimate& estimate) {
  if (!estimate.in_place_peak_bytes) return "";
  return fmt::format("\nWith results written in place, as `lowtide train` does: a peak of {}.\n",
                     format_bytes(*estimate.in_place_peak_bytes));
}

std::string planned_text(const Estimate& estimate) {
  if (!estimate.planned) return "";
  const estimate::PlannedPeak& planned = *estimate.planned;
  return fmt::format("\nWithin {}, {} plans a peak of {}, and {:.1f}% more time than keep-all.\n",
                     format_bytes(planned.budget_bytes), planned.strategy,
                     format_bytes(planned.peak_bytes), 100 * planned.overhead);
}

nlohmann::ordered_json by_name(const std::vector<Part>& parts) {
  auto object = nlohmann::ordered_json::object();
  for (const Part& part : parts) object[part.name] = part.bytes;
  return object;
}

nlohmann::ordered_json or_null(std::optional<Bytes> bytes) {
  return bytes ? nlohmann::ordered_json(*bytes) : nlohmann::ordered_json(nullptr);
}

nlohmann::ordered_json planned_json(const Estimate& estimate) {
  if (!estimate.planned) return nullptr;
  return {{"budget_bytes", estimate.planned->budget_bytes},
          {"strategy", estimate.planned->strategy},
          {"peak_bytes", estimate.planned->peak_bytes},
          {"overhead", estimate.planned->overhead}};
}

}  // namespace

std::string format_estimate(const Estimate& estimate, int most, std::size_t columns) {
  std::string text =
      headline(estimate) + parts_table(estimate, columns) +
      activations_table(estimate.by_layer, "activations by layer", "layers", most, columns) +
      activations_table(estimate.by_kind, "activations by kind of op", "", most, columns) +
      in_place_text(estimate) + planned_text(estimate);
  for (const std::string& note : estimate.notes) text += "\n" + note;
  return text + "\n";
}

nlohmann::ordered_json estimate_json(const Estimate& estimate) {
  return {{"name", estimate.name},
          {"parameters", estimate.parameters},
          {"peak_bytes", estimate.peak_bytes},
          {"in_place_peak_bytes", or_null(estimate.in_place_peak_bytes)},
          {"peak_op", estimate.peak_op},
          {"peak_phase", estimate.peak_phase},
          {"whole", by_name(estimate.whole)},
          {"at_peak", by_name(estimate.at_peak)},
          {"by_layer", by_name(estimate.by_layer)},
          {"by_kind", by_name(estimate.by_kind)},
          {"notes", estimate.notes},
          {"planned", planned_json(estimate)}};
}

}  // namespace lowtide::report
