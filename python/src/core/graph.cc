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

/// The ops or the tensors of a graph. A sequence, as a list would be made anew at each use, with
/// a handle of every one.
template <typename T>
struct Items {
  py::object graph;
  std::span<const T> items;

  py::object handle(std::size_t index) const { return py::cast(&items[index], kInside, graph); }
};

template <typename T>
Items<T> items_of(const Graph& graph, std::span<const T> items) {
  return {py::cast(&graph), items};
}

template <typename T>
py::object item(const Items<T>& items, std::ptrdiff_t index) {
  const auto size = static_cast<std::ptrdiff_t>(items.items.size());
  const std::ptrdiff_t place = index < 0 ? index + size : index;
  if (place < 0 || place >= size) {
    throw py::index_error(fmt::format("{} of {}", index, size));
  }
  return items.handle(static_cast<std::size_t>(place));
}

template <typename T>
py::list cut(const Items<T>& items, const py::slice& slice) {
  py::ssize_t start = 0, stop = 0, step = 0, length = 0;
  const auto size = static_cast<py::ssize_t>(items.items.size());
  if (!slice.compute(size, &start, &stop, &step, &length)) throw py::error_already_set();
  py::list handles;
  for (py::ssize_t place = start; length > 0; place += step, --length) {
    handles.append(items.handle(static_cast<std::size_t>(place)));
  }
  return handles;
}

template <typename T>
void bind_items(py::module_& module, const char* name) {
  auto items = py::class_<Items<T>>(module, name)
                   .def("__len__", [](const Items<T>& of) { return of.items.size(); })
                   .def("__getitem__", &item<T>)
                   .def("__getitem__", &cut<T>);
  py::module_::import("collections.abc").attr("Sequence").attr("register")(items);
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
  bind_items<Tensor>(module, "_Tensors");
  bind_items<Op>(module, "_Ops");
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
      .def_property_readonly("tensors", [](const Graph& g) { return items_of(g, g.tensors()); })
      .def_property_readonly("ops", [](const Graph& g) { return items_of(g, g.ops()); })
      .def_property_readonly("outputs", [](const Graph& g) { return g.data().outputs; })
      .def_property_readonly("resident_bytes", &Graph::resident_bytes)
      .def_property_readonly("after_bytes", &Graph::after_bytes)
      .def("with_after_bytes", &with_after_bytes, py::arg("bytes"))
      .def("with_random_ops_kept", &with_random_ops_kept)
      .def("droppable_results", &droppable_results)
      .def(
          "with_results_dropped",
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
