#include "device/pinned_memory.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/from_blob.h>
#include <fmt/format.h>

#include "base/error.h"

namespace lowtide::device {

at::Tensor pinned_memory(Bytes bytes) {
  try {
    return at::detail::empty_cpu({bytes}, at::kByte, /*pin_memory=*/true);
  } catch (const c10::Error& error) {
    throw Error(fmt::format("the system refuses {} of pinned host memory for values: {}; ask for "
                            "fewer bytes",
                            format_bytes(bytes), error.what_without_backtrace()));
  }
}

at::Tensor part_of(const at::Tensor& pinned, slower::Range range) {
  at::Tensor part = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(pinned.storage()),
                                                             pinned.key_set(), pinned.dtype());
  part.unsafeGetTensorImpl()->set_storage_offset(range.begin);
  part.unsafeGetTensorImpl()->set_sizes_contiguous({range.bytes()});
  return part;
}

at::Tensor device_bytes(const std::byte* data, Bytes bytes, c10::Device device) {
  return at::for_blob(const_cast<std::byte*>(data), {bytes})
      .options(at::TensorOptions().dtype(at::kByte).device(device))
      .target_device(device)
      .make_tensor();
}

}  // namespace lowtide::device
