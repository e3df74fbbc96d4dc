#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "simulated/hardware/streams.h"

namespace lowtide::simulated {

/// Lets other streams see late what a kernel wrote. Kernels run when they are called, since the
/// caller needs their results' sizes; then the bytes that they wrote are put aside, and writing
/// them becomes work of the stream. Writing any part of a tensor counts as writing all of it. Does
/// nothing while there is one stream, which cannot see the difference.
class LateEffects {
 public:
  explicit LateEffects(StreamId stream);

  /// To be called before the kernel runs, with what it writes of its arguments.
  void will_write(const at::Tensor& tensor);
  /// To be called afterwards, with memory that the kernel asked for and returns.
  void has_made(const c10::Storage& storage);
  void defer();

 private:
  struct Written {
    at::Tensor tensor;
    std::byte* data;  ///< at host addresses
    std::size_t bytes;
    std::unique_ptr<std::byte[]> before;
  };

  StreamId stream_;
  bool active_;
  std::vector<Written> written_;
  std::vector<c10::Storage> made_;
};

}  // namespace lowtide::simulated
