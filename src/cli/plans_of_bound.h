#pragma once

#include <string_view>

namespace lowtide::cli {

/// The plans of which none costs less than a bound, in words. `model`: Plan::model.
std::string_view plans_of_bound(std::string_view model);

}  // namespace lowtide::cli
