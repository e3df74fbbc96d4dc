#include "models/micro_batches.h"

#include <fmt/format.h>

#include <charconv>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "base/at.h"
#include "base/error.h"
#include "builder/functions.h"
#include "builder/repeat.h"

namespace lowtide::models {
namespace {

constexpr std::string_view kAutomaticName = "auto";

std::optional<std::int64_t> number_above_0(std::string_view text) {
  std::int64_t count = 0;
  const char* const behind = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), behind, count);
  const bool is_one = error == std::errc() && end == behind && count > 0;
  return is_one ? std::optional(count) : std::nullopt;
}

std::string listed(std::span<const std::int64_t> numbers) {
  std::string text;
  for (std::int64_t number : numbers) {
    if (!text.empty()) text += number == numbers.back() ? " or " : ", ";
    text += std::to_string(number);
  }
  return text;
}

/// Part number `index` of the batch of which `first` is part 0.
Value part(Value first, std::int64_t index) {
  Builder& builder = first.builder();
  const Value whole(&builder, builder.data().tensors[at(first.id())].alias_of);
  const std::int64_t rows = first.size(0);
  return slice(whole, 0, index * rows, (index + 1) * rows);
}

}  // namespace

std::int64_t parse_parts(std::string_view option, std::string_view text) {
  if (text == kAutomaticName) return kAutomatic;
  if (const auto count = number_above_0(text)) return *count;
  throw InputError(fmt::format("{}: \"{}\" is neither a number above 0 nor auto, which chooses one",
                               option, text));
}

std::int64_t parse_number_of_parts(std::string_view option, std::string_view text) {
  if (text == kAutomaticName) require_number(option, kAutomatic);
  if (const auto count = number_above_0(text)) return *count;
  throw InputError(fmt::format("{}: \"{}\" is no number above 0", option, text));
}

void require_number(std::string_view option, std::int64_t count) {
  if (count != kAutomatic) return;
  throw InputError(
      fmt::format("{} auto chooses by measured plans, as `lowtide train` makes them; name a number "
                  "here",
                  option));
}

std::vector<std::int64_t> possible_micro_batches(std::int64_t batch) {
  std::vector<std::int64_t> divisors;
  for (std::int64_t divisor = 1; divisor <= batch; ++divisor) {
    if (batch % divisor == 0) divisors.push_back(divisor);
  }
  return divisors;
}

void check_micro_batches(std::int64_t count, std::int64_t batch) {
  require_number("--micro-batches", count);
  if (count >= 1 && batch % count == 0) return;
  throw InputError(fmt::format(
      "a batch of {} has no {} micro-batches of one size: choose {} of them, or another --batch",
      batch, count, listed(possible_micro_batches(batch))));
}

LossAndAdjoints accumulated(const ModelParts& parts, LossAndAdjoints first, std::int64_t count) {
  Builder& builder = first.loss.builder();
  const auto end = static_cast<OpId>(builder.data().ops.size());
  std::map<TensorId, Value> sums{{first.loss.id(), first.loss}};
  for (Value adjoint : first.adjoints) sums[adjoint.id()] = adjoint;
  const auto add = [&](TensorId original, Value again) {
    const auto sum = sums.find(original);
    if (sum != sums.end()) sum->second = sum->second + again;
  };
  for (std::int64_t i = 1; i < count; ++i) {
    builder.set_phase(Phase::forward);
    const Replacements batch{{parts.input.id(), part(parts.input, i)},
                             {parts.target.id(), part(parts.target, i)}};
    repeat(builder, 0, end, batch, fmt::format("micro-batch-{}", i + 1), add);
  }
  builder.set_phase(Phase::backward);
  for (Value& adjoint : first.adjoints) adjoint = sums.at(adjoint.id());
  return {sums.at(first.loss.id()), std::move(first.adjoints)};
}

}  // namespace lowtide::models
