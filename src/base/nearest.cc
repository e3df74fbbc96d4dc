#include "base/nearest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

namespace lowtide {
namespace {

constexpr std::size_t kMostNames = 3;

char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

/// Number of letters to insert, delete, change or swap with a neighbour (optimal string alignment),
/// ignoring case.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::swap(before, last);
    std::swap(last, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = lower(a[i - 1]) == lower(b[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
                           lower(a[i - 2]) == lower(b[j - 1]);
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

}  // namespace

std::vector<std::string> nearest_names(std::string_view name,
                                       const std::vector<std::string>& candidates) {
  std::vector<std::pair<std::size_t, std::string>> near;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(name, candidate);
    if (2 * distance <= std::max(name.size(), candidate.size())) {
      near.emplace_back(distance, candidate);
    }
  }
  std::ranges::sort(near);
  near.resize(std::min(near.size(), kMostNames));
  std::vector<std::string> names;
  for (auto& [distance, candidate] : near) names.push_back(std::move(candidate));
  return names;
}

std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates) {
  const std::vector<std::string> names = nearest_names(name, candidates);
  if (names.empty()) return "";
  std::string list = fmt::format("\"{}\"", names.front());
  for (std::size_t i = 1; i < names.size(); ++i) {
    list += fmt::format("{}\"{}\"", i + 1 == names.size() ? " or " : ", ", names[i]);
  }
  return fmt::format(" Did you mean {}?", list);
}

}  // namespace lowtide
