#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace lowtide {

/// The type in which autocast has a function compute.
enum class AutocastTo : std::uint8_t {
  lower,  ///< the lower precision that autocast was given
  f32,
  widest  ///< f32 if an operand has it, else the lower precision
};

/// What PyTorch's autocast for the CPU does with a function (at::autocast, autocast_mode.cpp).
struct AutocastRule {
  std::string_view function;  ///< PyTorch's name, without namespace and overload
  AutocastTo to;
};

/// The rules of all functions that a builder has; others compute in the types of their operands.
std::span<const AutocastRule> autocast_rules();
/// Nothing for a function that computes in the types of its operands.
std::optional<AutocastTo> autocast_rule(std::string_view function);

}  // namespace lowtide
