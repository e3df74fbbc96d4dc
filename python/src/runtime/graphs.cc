#include "base/error.h"
#include "device/graph.h"
#include "tensors.h"

namespace lowtide::python {
namespace {

/// A graph that is an object of Python, with the methods of torch.cuda.CUDAGraph.
class PythonGraph final : public device::WorkGraph {
 public:
  explicit PythonGraph(py::object graph) : graph_(std::move(graph)) {}
  ~PythonGraph() override {
    const py::gil_scoped_acquire locked;
    graph_ = py::object();
  }
  PythonGraph(const PythonGraph&) = delete;
  PythonGraph& operator=(const PythonGraph&) = delete;

  void begin() override {
    call([this] { graph_.attr("capture_begin")(py::arg("capture_error_mode") = "thread_local"); });
  }
  void end() override {
    call([this] { graph_.attr("capture_end")(); });
  }
  void submit() override {
    call([this] { graph_.attr("replay")(); });
  }

 private:
  template <typename Method>
  static void call(const Method& method) {
    const py::gil_scoped_acquire locked;
    try {
      method();
    } catch (const py::error_already_set& error) {
      throw Error(std::string("the device cannot record this work: ") + error.what());
    }
  }

  py::object graph_;
};

void add_graphs(const std::string& device, const py::object& make) {
  py::object* const kept = new py::object(make);  // as long as the process
  device::add_graphs(c10::Device(device).type(), [kept]() -> std::unique_ptr<device::WorkGraph> {
    const py::gil_scoped_acquire locked;
    return std::make_unique<PythonGraph>((*kept)());
  });
}

}  // namespace

void bind_graphs(py::module_& module) {
  module.def("add_graphs", &add_graphs, py::arg("device"), py::arg("make"));
  module.def("why_no_graphs",
             [](const std::string& device) { return device::why_no_graphs(c10::Device(device)); });
}

}  // namespace lowtide::python
