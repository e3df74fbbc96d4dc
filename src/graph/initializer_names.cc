#include "graph/initializer_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include "base/error.h"

namespace lowtide {
namespace {

constexpr std::array<InitializerName, 6> kNames{{
    {Initializer::Kind::zeros, "zeros", 0},
    {Initializer::Kind::constant, "constant", 1},
    {Initializer::Kind::uniform, "uniform", 2},
    {Initializer::Kind::normal, "normal", 2},
    {Initializer::Kind::arange, "arange", 0},
    {Initializer::Kind::causal, "causal", 0},
}};

}  // namespace

const InitializerName& find_initializer(std::string_view name) {
  const auto found = std::ranges::find(kNames, name, &InitializerName::name);
  if (found != kNames.end()) return *found;
  std::string known;
  for (const InitializerName& entry : kNames) known += fmt::format(" {}", entry.name);
  throw InputError(fmt::format("has the unknown initializer \"{}\"; known are:{}", name, known));
}

const InitializerName& find_initializer(Initializer::Kind kind) {
  const auto found = std::ranges::find(kNames, kind, &InitializerName::kind);
  if (found == kNames.end()) throw std::logic_error("initializer without a name");
  return *found;
}

}  // namespace lowtide
