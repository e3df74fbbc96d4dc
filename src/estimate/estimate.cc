#include "estimate/estimate.h"

#include <algorithm>

namespace lowtide::estimate {

void add_to(std::vector<Part>& parts, std::string_view name, Bytes bytes) {
  if (bytes == 0) return;
  const auto known = std::ranges::find(parts, name, &Part::name);
  if (known == parts.end()) {
    parts.push_back({std::string(name), bytes});
  } else {
    known->bytes += bytes;
  }
}

Bytes sum(std::span<const Part> parts) {
  Bytes bytes = 0;
  for (const Part& part : parts) bytes += part.bytes;
  return bytes;
}

Bytes bytes_of(std::span<const Part> parts, std::string_view name) {
  const auto found = std::ranges::find(parts, name, &Part::name);
  return found == parts.end() ? 0 : found->bytes;
}

}  // namespace lowtide::estimate
