#pragma once

#include <cstddef>
#include <cstdint>

namespace lowtide {

/// An id, a position or a count, none negative, as the index of a container.
constexpr std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

}  // namespace lowtide
