#include "simulated/host_views.h"

#include <ATen/ATen.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "simulated/allocator.h"
#include "simulated/state.h"

namespace lowtide::simulated {
namespace {

const c10::Device kHost(c10::DeviceType::CPU);

c10::Storage make_storage(c10::DataPtr data, std::size_t bytes, c10::Allocator* allocator) {
  return {c10::Storage::use_byte_size_t(), bytes, std::move(data), allocator, true};
}

/// Memory of the host, or of the device at host addresses, as the device's memory.
c10::DataPtr adopted(c10::DataPtr host, std::size_t bytes) {
  if (host.get() == nullptr) return {nullptr, kDevice};
  if (state().memory.on_host(host.get())) return as_device_memory(std::move(host));
  c10::DataPtr device = allocator().allocate(bytes);
  std::memcpy(state().memory.to_host(device.get()), host.get(), bytes);
  return device;
}

bool has_same_geometry(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && a.strides() == b.strides() &&
         a.storage_offset() == b.storage_offset();
}

void copy_geometry(const at::Tensor& from, const at::Tensor& to) {
  c10::TensorImpl& impl = *to.unsafeGetTensorImpl();
  impl.set_storage_offset(from.storage_offset());
  impl.set_sizes_and_strides(from.sizes(), from.strides());
}

void drop_storage(void* storage) { delete static_cast<c10::Storage*>(storage); }

}  // namespace

bool is_on_device(const at::Tensor& tensor) {
  return tensor.defined() && tensor.device().type() == kDeviceType;
}

bool is_plain(const at::Tensor& tensor) {
  return (tensor.is_cpu() || is_on_device(tensor)) && tensor.layout() == at::kStrided &&
         !tensor.unsafeGetTensorImpl()->is_python_dispatch();
}

at::Tensor tensor_over(c10::Storage storage, c10::DispatchKeySet keys, const at::Tensor& like) {
  at::Tensor tensor =
      at::detail::make_tensor<c10::TensorImpl>(std::move(storage), keys, like.dtype());
  copy_geometry(like, tensor);
  if (like.is_conj()) tensor._set_conj(true);
  if (like.is_neg()) tensor._set_neg(true);
  if (like.unsafeGetTensorImpl()->is_wrapped_number()) {
    tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  }
  return tensor;
}

at::Tensor HostViews::to_host(const at::Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  if (!is_on_device(tensor)) {
    if (tensor.has_storage()) of_host_.push_back(tensor.storage().unsafeGetStorageImpl());
    return tensor;
  }
  const auto known = std::ranges::find_if(
      tensors_, [&](const TensorPair& pair) { return pair.device.is_same(tensor); });
  if (known != tensors_.end()) return known->host;
  at::Tensor host = tensor_over(host_storage(tensor.storage()),
                                c10::DispatchKeySet(c10::DispatchKey::CPU), tensor);
  tensors_.push_back({tensor, host});
  return host;
}

c10::Storage HostViews::host_storage(const c10::Storage& device) {
  const auto known = std::ranges::find_if(
      storages_, [&](const StoragePair& pair) { return pair.device.is_alias_of(device); });
  if (known != storages_.end()) return known->host;
  void* const data = state().memory.to_host(device.mutable_data());
  c10::Storage host = make_storage({data, kHost}, device.nbytes(), c10::GetCPUAllocator());
  storages_.push_back({device, host, data, device.nbytes()});
  return host;
}

c10::Storage HostViews::device_storage(const c10::Storage& host) {
  const auto known = std::ranges::find_if(
      storages_, [&](const StoragePair& pair) { return pair.host.is_alias_of(host); });
  if (known != storages_.end()) return known->device;
  const c10::Storage device = device_storage_over(host);
  storages_.push_back({device, host, host.data(), host.nbytes()});
  new_storages_.push_back(device);
  return device;
}

void HostViews::follow_changes() {
  for (StoragePair& pair : storages_) {
    if (pair.host.data() == pair.data && pair.host.nbytes() == pair.bytes) continue;
    c10::DataPtr data = pair.host.set_data_ptr(c10::DataPtr(nullptr, kHost));
    pair.device.set_data_ptr_noswap(adopted(std::move(data), pair.host.nbytes()));
    pair.device.set_nbytes(pair.host.nbytes());
  }
  for (const TensorPair& pair : tensors_) {
    if (!has_same_geometry(pair.device, pair.host)) copy_geometry(pair.host, pair.device);
  }
}

at::Tensor HostViews::to_device(const at::Tensor& result) {
  if (!result.defined() || result.device() != kHost) return result;
  const auto known = std::ranges::find_if(
      tensors_, [&](const TensorPair& pair) { return pair.host.is_same(result); });
  if (known != tensors_.end()) return known->device;
  TORCH_CHECK_NOT_IMPLEMENTED(result.has_storage(), "the simulated device has only dense tensors");
  if (std::ranges::count(of_host_, result.storage().unsafeGetStorageImpl()) > 0) return result;
  return tensor_over(device_storage(result.storage()),
                     c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), result);
}

c10::Storage host_storage_over(const c10::Storage& device) {
  void* const data = state().memory.to_host(device.mutable_data());
  return make_storage({data, new c10::Storage(device), &drop_storage, kHost}, device.nbytes(),
                      c10::GetCPUAllocator());
}

c10::Storage device_storage_over(const c10::Storage& host) {
  const std::size_t bytes = host.nbytes();
  void* const data = host.mutable_data();
  if (!state().memory.on_host(data)) {
    return make_storage(adopted(c10::DataPtr(data, kHost), bytes), bytes, &allocator());
  }
  return make_storage(
      {state().memory.to_device(data), new c10::Storage(host), &drop_storage, kDevice}, bytes,
      &allocator());
}

}  // namespace lowtide::simulated
