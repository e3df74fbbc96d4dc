#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace lowtide::strategy {

/// What the value of an option is.
enum class OptionKind : std::uint8_t {
  integer,
  number,
  choice,  ///< one of several names
  on_off
};
std::string_view name(OptionKind kind);

/// An option of a strategy, for --help, validation and documentation. In the program each value is
/// a number: the position of a choice, and 1 for on.
struct StrategyOption {
  std::string_view name;  ///< "segments"
  std::string_view help;
  OptionKind kind;
  double default_value;
  double low, high;                            ///< inclusive
  std::string_view unit = {};                  ///< "thousand moves"; empty: none
  std::vector<std::string_view> choices = {};  ///< names of its values, of a choice or switch
};

/// The inclusive range of a number.
struct OptionRange {
  double low, high;
};

/// Constructors for each kind. `unit`: of one, such as "thousand moves"; empty when it has none.
StrategyOption integer_option(std::string_view name, std::string_view help, double default_value,
                              OptionRange range, std::string_view unit = {});
StrategyOption number_option(std::string_view name, std::string_view help, double default_value,
                             OptionRange range, std::string_view unit = {});
/// The first choice is the default.
StrategyOption choice_option(std::string_view name, std::string_view help,
                             std::vector<std::string_view> choices);
StrategyOption on_off_option(std::string_view name, std::string_view help, bool default_value);
/// "seed", which starts the random numbers.
StrategyOption seed_option();

/// A value as a user gives it: a number, or a word, which may also be the text of a number.
class OptionValue {
 public:
  OptionValue() = default;  ///< 0
  template <typename Number>
    requires std::is_arithmetic_v<Number>
  OptionValue(Number number) : value_(static_cast<double>(number)) {}  // NOLINT: as it is written
  OptionValue(std::string word) : value_(std::move(word)) {}           // NOLINT
  OptionValue(const char* word) : value_(std::string(word)) {}         // NOLINT

  const double* number() const { return std::get_if<double>(&value_); }
  const std::string* word() const { return std::get_if<std::string>(&value_); }
  bool operator==(const OptionValue&) const = default;

 private:
  std::variant<double, std::string> value_;
};

/// Options as given, by name; those that are left out have their defaults.
using GivenOptions = std::map<std::string, OptionValue, std::less<>>;
/// The value of each option of a strategy.
using StrategyOptions = std::map<std::string, double, std::less<>>;

/// The number of a given value. Throws InputError when it is not of the option's kind or out of its
/// range; `strategy` is for the message.
double option_number(const StrategyOption& option, const OptionValue& given,
                     std::string_view strategy);

/// Whether the strategy has this switch, and it is off.
bool is_off(const StrategyOptions& options, std::string_view name);

/// A value as it is given on the command line: "8", "on", "paper".
std::string format_value(const StrategyOption& option, double value);
/// The values that are allowed: "0 to 1000000", "on or off", "ends, paper or strong".
std::string allowed_values(const StrategyOption& option);

}  // namespace lowtide::strategy
