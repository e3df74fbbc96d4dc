#pragma once

#include <pybind11/functional.h>
#include <torch/csrc/autograd/python_variable.h>

#include <string>
#include <vector>

#include "bindings.h"
#include "device/device.h"

namespace lowtide::python {

void bind_executor(py::module_& module);
void bind_differentiable(py::module_& module);
void bind_graphs(py::module_& module);
void bind_slower(py::module_& module);
void bind_simulated(py::module_& module);

inline constexpr const char* kCpu = "cpu";

/// Makes a GPU known to device::device_of() at its first use. Throws InputError that says what to
/// do where plans cannot be run on it.
void know_gpu(c10::Device device);

/// A device by PyTorch's name of it. Throws InputError for one that Lowtide does not know.
const device::ComputeDevice& device_named(const std::string& name);

/// Throws TypeError for a list with something else than tensors.
std::vector<at::Tensor> unwrapped(const py::sequence& tensors);
py::list wrapped(std::vector<at::Tensor> tensors);

}  // namespace lowtide::python
