#include <exception>
#include <string_view>

#include "base/error.h"
#include "bindings.h"

namespace lowtide::python {
namespace {

/// A message may quote bytes of a file that are no UTF-8.
template <typename Raised>
py::handle register_error(py::module_& module, const char* name, py::handle base) {
  static py::exception<Raised> raised(module, name, base);
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const Raised& error) {
      const std::string_view message = error.what();
      const auto text = py::reinterpret_steal<py::object>(PyUnicode_DecodeUTF8(
          message.data(), static_cast<py::ssize_t>(message.size()), "replace"));
      PyErr_SetObject(raised.ptr(), text.ptr());
    }
  });
  return raised;
}

}  // namespace

void bind_errors(py::module_& module) {
  // Translators are asked in the reverse order, so that the base class comes last.
  const py::handle error = register_error<Error>(module, "Error", PyExc_Exception);
  const py::tuple wrong_value = py::make_tuple(error, py::handle(PyExc_ValueError));
  register_error<InputError>(module, "InputError", wrong_value);
  register_error<InfeasibleError>(module, "InfeasibleError", error);
  register_error<StoppedError>(module, "StoppedError", error);
}

}  // namespace lowtide::python

PYBIND11_MODULE(_core, module) {
  module.doc() = "The compiled part of lowtide; import lowtide instead.";
#ifdef LOWTIDE_TORCH_VERSION
  module.attr("torch_version") = LOWTIDE_TORCH_VERSION;
#else
  module.attr("torch_version") = pybind11::none();
#endif
  lowtide::python::bind_errors(module);
  lowtide::python::bind_graph(module);
  lowtide::python::bind_cost(module);
  lowtide::python::bind_plan(module);
  lowtide::python::bind_planner(module);
  lowtide::python::bind_report(module);
  lowtide::python::bind_estimate(module);
}
