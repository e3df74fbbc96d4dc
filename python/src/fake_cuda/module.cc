#include "fake_cuda/fake_cuda.h"

#include <pybind11/pybind11.h>

PYBIND11_MODULE(_fake_cuda, module) {
  module.doc() = "Lets a PyTorch without CUDA trace programs for one; see python -m lowtide.";
  pybind11::module_::import("lowtide._core");  // has the types of errors
  module.def(
      "install",
      [](int major, int minor, bool is_amd) {
        lowtide::fake_cuda::install({major, minor}, is_amd);
      },
      pybind11::arg("major"), pybind11::arg("minor"), pybind11::arg("is_amd"));
}
