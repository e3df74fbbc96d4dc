#include "stash/ops.h"

#include "device/own_ops.h"
#include "stash/bits.h"
#include "stash/blocks.h"
#include "stash/halves.h"
#include "stash/windows.h"

namespace lowtide::stash {
namespace {

bool define_all() {
  using device::define_op;
  define_op("to_bits(Tensor mask) -> Tensor", TORCH_FN(to_bits));
  define_op("from_bits(Tensor bits, int[] size, int[] stride) -> Tensor", TORCH_FN(from_bits));
  define_op("passing_bits(Tensor values, Scalar low) -> Tensor", TORCH_FN(passing_bits));
  define_op("pass_by_bits(Tensor gradient, Tensor bits) -> Tensor", TORCH_FN(pass_by_bits));
  define_op(
      "window_places(Tensor indices, int first, int[] step, int[] unit, int[] sizes) -> Tensor",
      TORCH_FN(window_places));
  define_op(
      "window_indices(Tensor places, int first, int[] step, int[] unit, int[] sizes) -> Tensor",
      TORCH_FN(window_indices));
  define_op("to_blocks(Tensor values) -> (Tensor, Tensor)", TORCH_FN(to_blocks));
  define_op("from_blocks(Tensor steps, Tensor scales, ScalarType dtype) -> Tensor",
            TORCH_FN(from_blocks));
  define_op("to_finite(Tensor values, ScalarType dtype) -> Tensor", TORCH_FN(to_finite));
  return true;
}

}  // namespace

void register_ops() { [[maybe_unused]] static const bool are_defined = define_all(); }

}  // namespace lowtide::stash
