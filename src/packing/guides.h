#pragma once

#include <cstdint>
#include <vector>

#include "packing/instance.h"
#include "packing/valley_search.h"

namespace lowtide::packing {

/// The guide of the n-th search for a packing: all rules with the plain preferences (size, life,
/// area, load) first, then mixtures of size and life drawn from n. Deterministic.
Guide nth_guide(const Instance& instance, std::int64_t n);

/// 1 1 2 1 1 2 4 1 1 2 1 1 2 4 8 ...: the relative limit of the n-th restart (Luby, Sinclair and
/// Zuckerman, 1993), from n = 0.
std::int64_t luby(std::int64_t n);

}  // namespace lowtide::packing
