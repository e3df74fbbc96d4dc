#include "stash/ops.h"

#include <torch/library.h>

#include "stash/bits.h"
#include "stash/blocks.h"
#include "stash/windows.h"

namespace lowtide::stash {
namespace {

torch::Library* defined() {
  auto* const ops = new torch::Library(torch::Library::FRAGMENT, "lowtide", std::nullopt, __FILE__,
                                       __LINE__);  // as long as PyTorch's own
  const auto define = [ops](const char* schema, auto kernel) {
    ops->def(schema, torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd,
                                     torch::CppFunction(kernel)));
  };
  define("to_bits(Tensor mask) -> Tensor", TORCH_FN(to_bits));
  define("from_bits(Tensor bits, int[] size, int[] stride) -> Tensor", TORCH_FN(from_bits));
  define("passing_bits(Tensor values, Scalar low) -> Tensor", TORCH_FN(passing_bits));
  define("pass_by_bits(Tensor gradient, Tensor bits) -> Tensor", TORCH_FN(pass_by_bits));
  define("window_places(Tensor indices, int first, int[] step, int[] unit, int[] sizes) -> Tensor",
         TORCH_FN(window_places));
  define("window_indices(Tensor places, int first, int[] step, int[] unit, int[] sizes) -> Tensor",
         TORCH_FN(window_indices));
  define("to_blocks(Tensor values) -> (Tensor, Tensor)", TORCH_FN(to_blocks));
  define("from_blocks(Tensor steps, Tensor scales, ScalarType dtype) -> Tensor",
         TORCH_FN(from_blocks));
  return ops;
}

}  // namespace

void register_ops() { [[maybe_unused]] static const torch::Library* const ops = defined(); }

}  // namespace lowtide::stash
