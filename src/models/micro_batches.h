#pragma once

#include <vector>

#include "models/model.h"

namespace lowtide::models {

/// A loss, and what it gives each parameter.
struct LossAndAdjoints {
  Value loss;
  std::vector<Value> adjoints;  ///< one for each parameter
};

/// A number of micro-batches, or of slices: the one with the fastest plan (train/planned_step.h).
inline constexpr std::int64_t kAutomatic = 0;
/// Reads the number of an option, or "auto". Throws InputError for other texts.
std::int64_t parse_parts(std::string_view option, std::string_view text);
/// The same without "auto".
std::int64_t parse_number_of_parts(std::string_view option, std::string_view text);
/// Throws InputError for kAutomatic.
void require_number(std::string_view option, std::int64_t count);
/// The numbers of parts of one size into which a batch divides, in rising order.
std::vector<std::int64_t> possible_micro_batches(std::int64_t batch);
/// Throws InputError unless the batch has `count` equal parts.
void check_micro_batches(std::int64_t count, std::int64_t batch);

/// Gradient accumulation: appends the passes of the second to the last of `count` micro-batches.
/// `parts` and `first` are those of the first one, and their passes are all ops so far; its batch
/// is from Builder::MicroBatches. The results are sums over all micro-batches in their order, as
/// autograd adds up gradients of several backward passes. Each sum follows the op that makes its
/// second addend, so that no other gradient is held meanwhile.
LossAndAdjoints accumulated(const ModelParts& parts, LossAndAdjoints first, std::int64_t count);

}  // namespace lowtide::models
