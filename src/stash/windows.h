#pragma once

#include <ATen/core/Tensor.h>

/// Indices of a pooling op as places within its windows, losslessly, in one byte each.
///
/// The window of a result begins, as an index of the input's plane, at
/// `first + sum over dimensions d of place[d] * step[d]`; the index lies beyond that by
/// `sum over j of digit[j] * unit[j]`, with 0 <= digit[j] < sizes[j]. Units fall, each larger than
/// all that the digits after it come to, so that the digits are known from the sum. At most 256
/// combinations of digits fit into a byte.
namespace lowtide::stash {

/// uint8, laid out as `indices`, which is int64 and dense.
at::Tensor window_places(const at::Tensor& indices, std::int64_t first, at::IntArrayRef step,
                         at::IntArrayRef unit, at::IntArrayRef sizes);

/// The indices, int64, of such places.
at::Tensor window_indices(const at::Tensor& places, std::int64_t first, at::IntArrayRef step,
                          at::IntArrayRef unit, at::IntArrayRef sizes);

}  // namespace lowtide::stash
