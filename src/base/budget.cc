#include "base/budget.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <charconv>
#include <limits>
#include <optional>
#include <utility>

#include "base/error.h"

namespace lowtide {
namespace {

struct Unit {
  std::string_view lower_name;
  std::int64_t bytes;
};

constexpr std::array<Unit, 10> kUnits{{{"", 1},
                                       {"b", 1},
                                       {"kb", 1'000},
                                       {"mb", 1'000'000},
                                       {"gb", 1'000'000'000},
                                       {"tb", 1'000'000'000'000},
                                       {"kib", 1LL << 10},
                                       {"mib", 1LL << 20},
                                       {"gib", 1LL << 30},
                                       {"tib", 1LL << 40}}};

/// What a person wrote, for errors.
struct Written {
  std::string_view text;
  std::string_view what;   ///< it is
  std::string_view forms;  ///< it may have
};

[[noreturn]] void refuse(const Written& written, std::string_view why) {
  throw InputError(
      fmt::format("{} \"{}\" {}. Write {}.", written.what, written.text, why, written.forms));
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) {
    text.remove_prefix(1);
  }
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) {
    text.remove_suffix(1);
  }
  return text;
}

std::string lowered(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

/// Splits "1.5 GiB" into its leading digits and points, and the rest.
std::pair<std::string_view, std::string_view> split_number(std::string_view text) {
  const std::size_t end = text.find_first_not_of("0123456789.");
  if (end == std::string_view::npos) return {text, {}};
  return {text.substr(0, end), trimmed(text.substr(end))};
}

double parse_number(std::string_view digits, const Written& written) {
  double number = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, number, std::chars_format::fixed);
  if (error == std::errc::result_out_of_range) refuse(written, "is larger than any memory");
  if (digits.empty() || error != std::errc{} || stop != end) refuse(written, "is not a number");
  return number;
}

/// Parses whole numbers of bytes exactly; a double cannot hold them beyond 2^53.
std::optional<Bytes> parse_exact(std::string_view digits, std::int64_t unit) {
  Bytes whole = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, whole);
  Bytes product = 0;
  if (error != std::errc{} || stop != end || __builtin_mul_overflow(whole, unit, &product)) {
    return std::nullopt;
  }
  return product;
}

Bytes bytes_of(std::string_view digits, std::int64_t unit, const Written& written) {
  if (const auto exact = parse_exact(digits, unit)) return *exact;
  const double bytes = parse_number(digits, written) * static_cast<double>(unit);
  if (bytes >= static_cast<double>(std::numeric_limits<Bytes>::max())) {
    refuse(written, "is larger than any memory");
  }
  return static_cast<Bytes>(bytes);
}

/// The number of a text and its unit, which may be "%". Throws for none, and for one below 0.
std::pair<std::string_view, std::string_view> number_and_unit(const Written& written) {
  const std::string_view content = trimmed(written.text);
  if (content.empty()) refuse(written, "is empty");
  if (content.front() == '-') refuse(written, "is negative");
  return split_number(content);
}

Bytes amount_of(std::string_view digits, std::string_view suffix, const Written& written) {
  const std::string unit_name = lowered(suffix);
  for (const Unit& unit : kUnits) {
    if (unit.lower_name != unit_name) continue;
    const Bytes bytes = bytes_of(digits, unit.bytes, written);
    if (bytes == 0) refuse(written, "leaves no memory at all");
    return bytes;
  }
  if (digits.empty()) refuse(written, "is not a number");
  refuse(written, fmt::format("has the unknown unit \"{}\"", suffix));
}

Budget share_of(std::string_view digits, const Written& written) {
  const double percent = parse_number(digits, written);
  if (percent <= 0) refuse(written, "leaves no memory at all");
  if (percent > 100) refuse(written, "is more than keep-all needs; 100% is enough for any plan");
  return {Budget::Share{percent}};
}

}  // namespace

Bytes Budget::resolve(Bytes keep_all_peak) const {
  if (const Bytes* bytes = std::get_if<Bytes>(&value)) return *bytes;
  if (const Share* share = std::get_if<Share>(&value)) {
    return static_cast<Bytes>(share->percent / 100 * static_cast<double>(keep_all_peak));
  }
  return kUnlimitedBytes;
}

Budget parse_budget(std::string_view text) {
  const Written written{text, "budget",
                        "bytes (800000000), an amount (512MB, 1.5GiB) or a share of what keep-all "
                        "needs (60%)"};
  const auto [digits, suffix] = number_and_unit(written);
  if (suffix == "%") return share_of(digits, written);
  return {amount_of(digits, suffix, written)};
}

Bytes parse_amount(std::string_view text, std::string_view what) {
  const Written written{text, what, "bytes (800000000) or an amount (512MB, 1.5GiB)"};
  const auto [digits, suffix] = number_and_unit(written);
  if (suffix == "%") refuse(written, "is a share, where only bytes make sense");
  return amount_of(digits, suffix, written);
}

std::string format_budget(const Budget& budget) {
  if (const Bytes* bytes = std::get_if<Bytes>(&budget.value)) return fmt::format("{}", *bytes);
  if (const auto* share = std::get_if<Budget::Share>(&budget.value)) {
    return fmt::format("{}%", share->percent);
  }
  return {};
}

}  // namespace lowtide
