#include "base/error.h"
#include "bindings.h"

namespace lowtide::python {

void bind_errors(py::module_& module) {
  // Translators are asked in the reverse order, so that the base class comes last.
  const auto& error = py::register_exception<Error>(module, "Error");
  py::register_exception<InputError>(module, "InputError", error);
  py::register_exception<InfeasibleError>(module, "InfeasibleError", error);
  py::register_exception<StoppedError>(module, "StoppedError", error);
}

}  // namespace lowtide::python

PYBIND11_MODULE(_core, module) {
  module.doc() = "The compiled part of lowtide; import lowtide instead.";
  lowtide::python::bind_errors(module);
  lowtide::python::bind_graph(module);
  lowtide::python::bind_plan(module);
  lowtide::python::bind_planner(module);
  lowtide::python::bind_report(module);
}
