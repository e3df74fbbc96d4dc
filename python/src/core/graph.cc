#include "graph/graph.h"

#include <fmt/format.h>

#include "bindings.h"
#include "graph/handed_out.h"
#include "graph/io.h"

namespace lowtide::python {
namespace {

constexpr auto kInside = py::return_value_policy::reference_internal;

std::optional<std::string_view> dtype_name(const Tensor& t) {
  return t.dtype ? std::optional(name(*t.dtype)) : std::nullopt;
}

template <typename T>
py::list handles(const Graph& graph, std::span<const T> items) {
  py::list list;
  const py::object owner = py::cast(&graph);
  for (const T& item : items) list.append(py::cast(&item, kInside, owner));
  return list;
}

py::list in_place_pairs(const Op& op) {
  py::list pairs;
  for (const InPlace& pair : op.inplace) pairs.append(py::make_tuple(pair.output, pair.input));
  return pairs;
}

void bind_tensor(py::module_& module) {
  py::class_<Tensor>(module, "Tensor")
      .def_readonly("name", &Tensor::name)
      .def_readonly("bytes", &Tensor::bytes)
      .def_property_readonly("kind", [](const Tensor& t) { return name(t.kind); })
      .def_property_readonly("alias_of", [](const Tensor& t) { return optional_index(t.alias_of); })
      .def_property_readonly("dtype", dtype_name)
      .def_readonly("shape", &Tensor::shape)
      .def_readonly("strides", &Tensor::strides)
      .def_property_readonly("role", [](const Tensor& t) { return name(t.role); })
      .def_property_readonly("gradient_of",
                             [](const Tensor& t) { return optional_index(t.gradient_of); })
      .def("__repr__", [](const Tensor& t) {
        return fmt::format("<lowtide.Tensor {}: {}, {}>", t.name, name(t.kind),
                           format_bytes(t.bytes));
      });
}

void bind_op(py::module_& module) {
  py::class_<Op>(module, "Op")
      .def_readonly("name", &Op::name)
      .def_readonly("type", &Op::type)
      .def_readonly("inputs", &Op::inputs)
      .def_readonly("outputs", &Op::outputs)
      .def_readonly("cost", &Op::cost)
      .def_readonly("cost_estimated", &Op::cost_estimated)
      .def_readonly("workspace_bytes", &Op::workspace_bytes)
      .def_property_readonly("phase", [](const Op& o) { return name(o.phase); })
      .def_readonly("recomputable", &Op::recomputable)
      .def_readonly("random", &Op::random)
      .def_property_readonly("inplace", in_place_pairs)
      .def_readonly("mutates", &Op::mutates)
      .def("__repr__",
           [](const Op& o) { return fmt::format("<lowtide.Op {}: {}>", o.name, o.type); });
}

}  // namespace

void bind_graph(py::module_& module) {
  bind_tensor(module);
  bind_op(module);
  py::class_<Graph>(module, "Graph", "A training computation; docs/reference/graph-format.md.")
      .def_static("load", &read_graph, py::arg("path"), py::call_guard<py::gil_scoped_release>())
      .def_static("parse", &parse_graph, py::arg("text"), py::arg("source") = "graph",
                  py::call_guard<py::gil_scoped_release>())
      .def("save", &write_graph, py::arg("path"), py::call_guard<py::gil_scoped_release>())
      .def("format", &format_graph, py::call_guard<py::gil_scoped_release>())
      .def_property_readonly("name", &Graph::name)
      .def_property_readonly("cost_unit", &Graph::cost_unit)
      .def_property_readonly("device", &Graph::device)
      .def_property_readonly("alignment", &Graph::alignment)
      .def_property_readonly("tensors", [](const Graph& g) { return handles(g, g.tensors()); })
      .def_property_readonly("ops", [](const Graph& g) { return handles(g, g.ops()); })
      .def_property_readonly("outputs", [](const Graph& g) { return g.data().outputs; })
      .def_property_readonly("resident_bytes", &Graph::resident_bytes)
      .def_property_readonly("after_bytes", &Graph::after_bytes)
      .def("with_after_bytes", &with_after_bytes, py::arg("bytes"))
      .def("with_random_ops_kept", &with_random_ops_kept)
      .def("droppable_results", &droppable_results)
      .def("with_results_dropped",
           [](const Graph& graph, const std::vector<TensorId>& results) {
             return with_results_dropped(graph, results);
           },
           py::arg("results"))
      .def_property_readonly("executable", &Graph::executable)
      .def(py::pickle(&format_graph, [](const std::string& text) { return parse_graph(text); }))
      .def("__repr__", [](const Graph& g) {
        return fmt::format("<lowtide.Graph {}: {} ops, {} tensors>", g.name(), g.num_ops(),
                           g.num_tensors());
      });
}

}  // namespace lowtide::python
