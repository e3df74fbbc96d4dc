#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "plan/plan.h"

namespace lowtide {

/// Reads and writes `lowtide-plan` documents (docs/reference/plan-format.md). Reading throws
/// InputError that names the file and the rule. Writes to a file next to the path, then renames it.
Plan read_plan(const std::filesystem::path& path);
Plan parse_plan(std::string_view text, const std::string& source = "plan");
void write_plan(const Plan& plan, const std::filesystem::path& path);
std::string format_plan(const Plan& plan);

}  // namespace lowtide
