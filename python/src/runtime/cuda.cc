#include <fmt/format.h>

#include <set>

#include "base/error.h"
#include "tensors.h"
#ifdef LOWTIDE_CUDA
#include "cuda/cuda_device.h"
#endif

namespace lowtide::python {
namespace {

#ifdef LOWTIDE_CUDA
const device::ComputeDevice& gpu(c10::DeviceIndex index) {
  const py::module_ torch = py::module_::import("torch");
  const py::object gpus = torch.attr("cuda");
  const py::object version = torch.attr("version").attr("cuda");
  if (!gpus.attr("is_available")().cast<bool>() || version.is_none()) {
    throw InputError("there is no GPU of CUDA here: torch.cuda.is_available() is False, or this "
                     "torch is built for other GPUs; move the model and its inputs to the CPU");
  }
  const auto model = gpus.attr("get_device_name")(static_cast<int>(index)).cast<std::string>();
  return cuda::cuda_device(index, fmt::format("{}, CUDA {}", model, version.cast<std::string>()));
}
#else
const device::ComputeDevice& gpu(c10::DeviceIndex) {
  throw InputError(
      "this Lowtide was built without its part for CUDA; build it again with headers of CUDA "
      "(docs/how-to/train-on-a-gpu.md)");
}
#endif

}  // namespace

void know_gpu(c10::Device device) {
  const py::gil_scoped_acquire locked;
  static auto* const known = new std::set<c10::DeviceIndex>;
  const c10::DeviceIndex index = device.has_index() ? device.index() : c10::DeviceIndex{0};
  if (known->contains(index)) return;
  device::add_device(gpu(index));
  known->insert(index);
}

}  // namespace lowtide::python
