#include "simulated/copies.h"

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/native/Resize.h>

#include <cstring>
#include <memory>

#include "device/allocation.h"
#include "simulated/allocator.h"
#include "simulated/capture.h"
#include "simulated/hardware/pinned_memory.h"
#include "simulated/host_views.h"
#include "simulated/late_effects.h"
#include "simulated/state.h"

namespace lowtide::simulated {
namespace {

/// Whether one copy of bytes is a copy of the tensor.
bool has_same_bytes(const at::Tensor& a, const at::Tensor& b) {
  return a.dtype() == b.dtype() && a.sizes() == b.sizes() && a.strides() == b.strides() &&
         a.is_conj() == b.is_conj() && a.is_neg() == b.is_neg() && a.is_non_overlapping_and_dense();
}

std::byte* first_byte(const at::Tensor& tensor) {
  auto* const storage = static_cast<std::byte*>(tensor.storage().mutable_data());
  return storage + tensor.storage_offset() * static_cast<std::int64_t>(tensor.itemsize());
}

std::shared_ptr<const void> owner_of(const at::Tensor& tensor) {
  return std::make_shared<const c10::Storage>(tensor.storage());
}

/// By the CPU's kernel, after all work of the stream.
void copy_now(const at::Tensor& from, const at::Tensor& to) {
  state().streams.finish(current_stream());
  state().streams.drop_owners();
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  HostViews views;
  views.to_host(to).copy_(views.to_host(from));
}

void copy_within(const at::Tensor& from, const at::Tensor& to) {
  state().streams.finish(current_stream());
  LateEffects effects(current_stream());
  effects.will_write(to);
  {
    const device::Serving serving(kernel_source());
    copy_now(from, to);
  }
  effects.defer();
}

/// A tensor of the host with the bytes that are to be at `to`, which nobody else changes.
at::Tensor staged(const at::Tensor& from, const at::Tensor& to) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  at::Tensor stage = at::detail::empty_strided_generic(
      to.sizes(), to.strides(), &pinned_allocator(), c10::DispatchKeySet(c10::DispatchKey::CPU),
      to.scalar_type());
  if (to.is_conj()) stage._set_conj(true);
  if (to.is_neg()) stage._set_neg(true);
  return stage.copy_(from);
}

/// The owner keeps memory of the host alive until the copy is done.
Copy copy_of_bytes(const at::Tensor& from, const at::Tensor& to) {
  if (is_on_device(to)) {
    return {state().memory.to_host(first_byte(to)), first_byte(from), to.nbytes(), owner_of(from)};
  }
  return {first_byte(to), state().memory.to_host(first_byte(from)), to.nbytes(), owner_of(to)};
}

void copy_to_device(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  if (!non_blocking || !to.is_non_overlapping_and_dense()) return copy_now(from, to);
  const bool is_stable = has_same_bytes(from, to) && is_pinned(from.storage().data());
  state().streams.copy(current_stream(), copy_of_bytes(is_stable ? from : staged(from, to), to));
}

void copy_to_host(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  if (!non_blocking || !has_same_bytes(from, to) || !is_pinned(to.storage().data())) {
    return copy_now(from, to);
  }
  state().streams.copy(current_stream(), copy_of_bytes(from, to));
}

/// Whether a graph can hold the copy: of bytes alone, from or to pinned memory of the host, which
/// then lives as long as the graph.
bool is_capturable(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  const at::Tensor& of_host = is_on_device(to) ? from : to;
  return non_blocking && has_same_bytes(from, to) && is_pinned(of_host.storage().data());
}

void record_copy(Capture& capture, const at::Tensor& from, const at::Tensor& to,
                 bool non_blocking) {
  if (is_on_device(from) && is_on_device(to)) {
    return capture.record("copy", [&]() -> Submit {
      capture.will_write(to);
      copy_within(from, to);
      return [source = borrowed(from), target = borrowed(to)] { copy_within(source, target); };
    });
  }
  if (!is_capturable(from, to, non_blocking)) {
    capture.refuse("a copy between host and device that waits; give non_blocking=True and pinned "
                   "memory of the same dtype and layout");
  }
  capture.record("copy", [&]() -> Submit {
    const Copy copy = copy_of_bytes(from, to);
    capture.will_write(to);
    if (is_on_device(to)) std::memcpy(copy.to, copy.from, copy.bytes);
    return [copy] { state().streams.copy(current_stream(), copy); };
  });
}

}  // namespace

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  if (to.numel() == 0) return to;
  if (Capture* const capture = capture_of(current_stream())) {
    record_copy(*capture, from, to, non_blocking);
    return to;
  }
  ++state().launches;
  if (is_on_device(from) && is_on_device(to)) {
    copy_within(from, to);
  } else if (is_on_device(to)) {
    copy_to_device(from, to, non_blocking);
  } else {
    copy_to_host(from, to, non_blocking);
  }
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  at::native::resize_output(to, from.sizes());
  return copy_from(from, to, false);
}

}  // namespace lowtide::simulated
