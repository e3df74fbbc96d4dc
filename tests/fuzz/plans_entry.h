#pragma once

#include <string>

namespace lowtide::testing {

/// What was checked in all cases that plans_entry.cc has read.
std::string format_tally_of_all();

}  // namespace lowtide::testing
