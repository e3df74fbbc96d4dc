#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <optional>
#include <string>
#include <string_view>

namespace lowtide::python {

namespace py = pybind11;

// One function per part; module.cc calls them in this order.
void bind_errors(py::module_& module);
void bind_graph(py::module_& module);
void bind_cost(py::module_& module);
void bind_plan(py::module_& module);
void bind_planner(py::module_& module);
void bind_report(py::module_& module);
void bind_estimate(py::module_& module);

/// None for an index that is not there.
inline std::optional<int> optional_index(int index) {
  return index < 0 ? std::nullopt : std::optional(index);
}

}  // namespace lowtide::python
