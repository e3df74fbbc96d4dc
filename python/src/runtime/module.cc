#include "base/error.h"
#include "bindings.h"
#include "device/allocation.h"
#include "profile/profiler.h"
#include "tensors.h"
#include "train/profile_cache.h"

namespace lowtide::python {
namespace {

using Report = std::optional<Control::Listener>;

Graph profiled(const Graph& graph, const std::optional<std::filesystem::path>& file, bool again,
               const Report& report) {
  const Control control(0, report.value_or(Control::Listener()));
  const profile::Measure measure = again ? profile::Measure::again : profile::Measure::lacking;
  return train::profile_here(graph, file.value_or(""), control, measure).graph;
}

void bind_profile(py::module_& module) {
  module.def("device_name", &profile::device_name);
  module.def("profile_path", [] { return train::default_profile_path(profile::device_name()); });
  module.def("profiled", &profiled, py::arg("graph"), py::arg("file") = std::nullopt,
             py::arg("again") = false, py::arg("report") = std::nullopt,
             py::call_guard<py::gil_scoped_release>());
  module.def("request_stop", &Control::request_stop);
  module.def("clear_stop", &Control::clear_stop);
}

void bind_memory(py::module_& module) {
  module.def("taken_bytes", [] { return device::count_allocations().taken.now(); });
  module.def("taken_peak_bytes", [] { return device::count_allocations().taken.peak(); });
  module.def("unserved_bytes", [] { return device::count_allocations().unserved.now(); });
  module.def("unserved_peak_bytes", [] { return device::count_allocations().unserved.peak(); });
  module.def("reset_peaks", &device::reset_allocation_peaks);
}

}  // namespace
}  // namespace lowtide::python

PYBIND11_MODULE(_runtime, module) {
  module.doc() = "The compiled part of lowtide that runs plans with LibTorch.";
  pybind11::module_::import("lowtide._core");
  lowtide::python::bind_profile(module);
  lowtide::python::bind_memory(module);
  lowtide::python::bind_executor(module);
  lowtide::python::bind_differentiable(module);
  lowtide::python::bind_simulated(module);
}
