#pragma once

#include <string_view>

#include "graph/initializer.h"

namespace lowtide {

/// The form of an initializer in a file: ["normal", 0, 0.02].
struct InitializerName {
  Initializer::Kind kind;
  std::string_view name;
  int numbers;  ///< count of numbers after the name
};

/// Throws InputError that lists the names.
const InitializerName& find_initializer(std::string_view name);
const InitializerName& find_initializer(Initializer::Kind kind);

}  // namespace lowtide
