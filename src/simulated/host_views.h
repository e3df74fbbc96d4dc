#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

namespace lowtide::simulated {

bool is_on_device(const at::Tensor& tensor);
/// Whether it is a tensor with bytes, here or on the CPU, and not one that stands for another.
bool is_plain(const at::Tensor& tensor);

/// A tensor with the type, sizes and strides of another one, over a storage.
at::Tensor tensor_over(c10::Storage storage, c10::DispatchKeySet keys, const at::Tensor& like);

/// CPU tensors over the bytes of the device's tensors, for one call of a kernel, and the device's
/// tensors over what the kernel returns. Tensors that share a storage there share one here.
class HostViews {
 public:
  /// A tensor that is not on the device is its own view.
  at::Tensor to_host(const at::Tensor& tensor);
  /// The device's storages and tensors follow views that the kernel resized.
  void follow_changes();
  /// An argument for its view; for a new tensor one on the device, without a copy where the
  /// kernel got its memory from kernel_source(). Tensors of the CPU's that the call was given stay.
  at::Tensor to_device(const at::Tensor& result);

  /// The device's storages that to_device() made.
  const std::vector<c10::Storage>& new_storages() const { return new_storages_; }

 private:
  struct StoragePair {
    c10::Storage device, host;
    const void* data;  ///< of the host's storage when it was made
    std::size_t bytes;
  };
  struct TensorPair {
    at::Tensor device, host;
  };

  c10::Storage host_storage(const c10::Storage& device);
  c10::Storage device_storage(const c10::Storage& host);

  std::vector<StoragePair> storages_;
  std::vector<TensorPair> tensors_;
  std::vector<const c10::StorageImpl*> of_host_;  ///< storages of arguments on the CPU
  std::vector<c10::Storage> new_storages_;
};

/// The other device type's storage over the same bytes, which keeps `storage` alive.
c10::Storage host_storage_over(const c10::Storage& device);
c10::Storage device_storage_over(const c10::Storage& host);

}  // namespace lowtide::simulated
