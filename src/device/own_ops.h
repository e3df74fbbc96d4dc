#pragma once

#include <torch/library.h>

namespace lowtide::device {

/// Where ops of PyTorch "lowtide::..." are defined, until the process ends.
inline torch::Library& own_ops() {
  static auto* const ops = new torch::Library(torch::Library::FRAGMENT, "lowtide", std::nullopt,
                                              __FILE__, __LINE__);  // as long as PyTorch's own
  return *ops;
}

/// Adds one that has the same kernel, a TORCH_FN(), on every device.
template <typename Kernel>
void define_op(const char* schema, Kernel kernel) {
  own_ops().def(schema, torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd,
                                        torch::CppFunction(kernel)));
}

}  // namespace lowtide::device
