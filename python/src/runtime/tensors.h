#pragma once

#include <pybind11/functional.h>
#include <torch/csrc/autograd/python_variable.h>

#include <vector>

#include "bindings.h"

namespace lowtide::python {

void bind_executor(py::module_& module);
void bind_differentiable(py::module_& module);
void bind_simulated(py::module_& module);

/// Throws TypeError for a list with something else than tensors.
std::vector<at::Tensor> unwrapped(const py::sequence& tensors);
py::list wrapped(std::vector<at::Tensor> tensors);

}  // namespace lowtide::python
