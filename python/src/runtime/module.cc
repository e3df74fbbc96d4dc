#include <c10/util/Exception.h>

#include "base/error.h"
#include "batch_norm/ops.h"
#include "bindings.h"
#include "device/device.h"
#include "profile/profiler.h"
#include "stash/ops.h"
#include "tensors.h"
#include "train/profile_cache.h"

namespace lowtide::python {
namespace {

using Report = std::optional<Control::Listener>;

Graph profiled(const Graph& graph, const std::optional<std::filesystem::path>& file, bool again,
               const Report& report, const std::string& device) {
  const Control control(0, report.value_or(Control::Listener()));
  const profile::Measure measure = again ? profile::Measure::again : profile::Measure::lacking;
  return train::profile_here(graph, file.value_or(""), control, measure, device_named(device))
      .graph;
}

void bind_profile(py::module_& module) {
  module.def("profile_path", [](const std::string& device) {
    return train::default_profile_path(device_named(device).name());
  }, py::arg("device") = kCpu);
  module.def("profiled", &profiled, py::arg("graph"), py::arg("file") = std::nullopt,
             py::arg("again") = false, py::arg("report") = std::nullopt, py::arg("device") = kCpu,
             py::call_guard<py::gil_scoped_release>());
  module.def("request_stop", &Control::request_stop);
  module.def("clear_stop", &Control::clear_stop);
}

/// The tensor, and all views of it, keep shape and type and lose their bytes. Whatever asks for
/// these gets an error of PyTorch with the words of `why`.
void give_up_memory(const py::object& tensor, std::string why) {
  const at::Tensor given = unwrapped(py::list(py::make_tuple(tensor))).front();
  c10::StorageImpl& storage = *given.storage().unsafeGetStorageImpl();
  storage.set_data_ptr_noswap({nullptr, storage.device()});
  storage.release_data_and_set_meta_custom_data_ptr_error_msg_(std::move(why));
}

void bind_memory(py::module_& module) {
  const auto define = [&](const char* name, auto&& of) {
    module.def(name, [of](const std::string& device) {
      return of(device_named(device).count_allocations());
    }, py::arg("device") = kCpu);
  };
  define("taken_bytes", [](const auto& counted) { return counted.taken.now(); });
  define("taken_peak_bytes", [](const auto& counted) { return counted.taken.peak(); });
  define("unserved_bytes", [](const auto& counted) { return counted.unserved.now(); });
  define("unserved_peak_bytes", [](const auto& counted) { return counted.unserved.peak(); });
  module.def("device_memory", [](const std::string& device) {
    const device::DeviceMemory memory = device_named(device).memory();
    return std::pair(memory.free, memory.total);  // as torch.cuda.mem_get_info has them
  }, py::arg("device") = kCpu);
  module.def("lasting_bytes",
             [](const std::string& device) { return device_named(device).lasting_bytes(); },
             py::arg("device") = kCpu);
  module.def("take_lasting", [](const std::string& device) { device_named(device).take_lasting(); },
             py::arg("device") = kCpu);
  module.def("give_up_memory", &give_up_memory, py::arg("tensor"), py::arg("why"));
  module.def("reset_peaks", [](const std::string& device) {
    device_named(device).reset_allocation_peaks();
  }, py::arg("device") = kCpu);
}

/// As torch raises them, so that programs which catch them go on, such as with a smaller batch.
void translate_errors_of_ops(std::exception_ptr thrown) {
  try {
    if (thrown) std::rethrow_exception(thrown);
  } catch (const c10::OutOfMemoryError& error) {
    const py::object kind = py::module_::import("torch").attr("OutOfMemoryError");
    PyErr_SetString(kind.ptr(), error.what_without_backtrace());
  } catch (const c10::IndexError& error) {
    PyErr_SetString(PyExc_IndexError, error.what_without_backtrace());
  } catch (const c10::ValueError& error) {
    PyErr_SetString(PyExc_ValueError, error.what_without_backtrace());
  } catch (const c10::TypeError& error) {
    PyErr_SetString(PyExc_TypeError, error.what_without_backtrace());
  } catch (const c10::NotImplementedError& error) {
    PyErr_SetString(PyExc_NotImplementedError, error.what_without_backtrace());
  }
}

}  // namespace
}  // namespace lowtide::python

PYBIND11_MODULE(_runtime, module) {
  module.doc() = "The compiled part of lowtide that runs plans with LibTorch.";
  pybind11::module_::import("lowtide._core");
  pybind11::register_exception_translator(&lowtide::python::translate_errors_of_ops);
  lowtide::batch_norm::register_ops();
  lowtide::stash::register_ops();
  lowtide::python::bind_profile(module);
  lowtide::python::bind_memory(module);
  lowtide::python::bind_slower(module);
  lowtide::python::bind_executor(module);
  lowtide::python::bind_graphs(module);
  lowtide::python::bind_differentiable(module);
  lowtide::python::bind_simulated(module);
}
