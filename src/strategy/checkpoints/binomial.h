#pragma once

#include <cstdint>

namespace lowtide::strategy::checkpoints {

/// Binomial checkpointing (Griewank and Walther, "Evaluating Derivatives", 2008, section 12.3) of a
/// chain of `length` states that are needed from last to first, with `slots` states stored at a
/// time, one of them the first state.

/// The fewest steps from a state to the next with which all states are reached.
std::int64_t binomial_steps(std::int64_t length, std::int64_t slots);

/// The state to store next after the first: a number in [1, length). length >= 2, slots >= 2.
int binomial_split(int length, int slots);

}  // namespace lowtide::strategy::checkpoints
