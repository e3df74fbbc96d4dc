#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lowtide {

/// At most three candidates closest to `name` by edit distance, best first. Leaves out candidates
/// that differ in more than about half of the letters.
std::vector<std::string> nearest_names(std::string_view name,
                                       const std::vector<std::string>& candidates);

/// ` Did you mean "resnet50" or "resnet18"?`, or "" when nothing is near.
std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace lowtide
