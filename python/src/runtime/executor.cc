#include "runtime/executor.h"

#include "graph/boundary.h"
#include "runtime/autograd_executor.h"
#include "runtime/block_map.h"
#include "runtime/open_places.h"
#include "tensors.h"

namespace lowtide::python {
namespace {

using Ids = std::vector<TensorId>;

py::tuple forward(runtime::AutogradExecutor& executor, const py::sequence& residents,
                  const Ids& wanted) {
  const std::vector<at::Tensor> given = unwrapped(residents);
  runtime::AutogradExecutor::Forward result;
  {
    const py::gil_scoped_release unlocked;
    result = executor.forward(given, wanted);
  }
  return py::make_tuple(wrapped(std::move(result.results)),
                        py::reinterpret_steal<py::object>(THPVariable_Wrap(result.ticket)));
}

py::list backward(runtime::AutogradExecutor& executor, const py::sequence& tangents,
                  const Ids& wanted) {
  const std::vector<at::Tensor> given = unwrapped(tangents);
  std::vector<at::Tensor> results;
  {
    const py::gil_scoped_release unlocked;
    results = executor.backward(given, wanted);
  }
  return wrapped(std::move(results));
}

py::list replay(runtime::AutogradExecutor& executor, const py::handle& ticket,
                const py::sequence& residents, const py::sequence& tangents, const Ids& wanted) {
  const at::Tensor number = THPVariable_Unpack(ticket.ptr());
  const std::vector<at::Tensor> given = unwrapped(residents);
  const std::vector<at::Tensor> derived = unwrapped(tangents);
  std::vector<at::Tensor> results;
  {
    const py::gil_scoped_release unlocked;
    results = executor.replay(number, given, derived, wanted);
  }
  return wrapped(std::move(results));
}

using runtime::AutogradExecutor;

/// The store for what the plan moves is opened in `place`, which is null for plans that move
/// nothing.
std::unique_ptr<AutogradExecutor> make_executor(const Graph& graph, const Plan& plan,
                                                const std::string& device, bool as_graph,
                                                const slower::Place* slower,
                                                const slower::Place* second) {
  using Launch = AutogradExecutor::Launch;
  std::unique_ptr<slower::Store> store;
  if (plan.slower && slower != nullptr) store = runtime::open_places(*plan.slower, slower, second);
  return std::make_unique<AutogradExecutor>(graph, plan, device_named(device),
                                            as_graph ? Launch::as_one : Launch::one_by_one,
                                            std::move(store));
}

py::tuple tuple_of(const slower::Counters& moved) {
  return py::make_tuple(moved.bytes_out, moved.bytes_in, moved.copy_seconds, moved.wait_seconds);
}

py::tuple moved(const AutogradExecutor& executor) {
  slower::PlaceCounters moved;
  {
    const py::gil_scoped_release unlocked;
    moved = executor.moved();
  }
  return py::make_tuple(tuple_of(moved.first), tuple_of(moved.second));
}

void send_away(runtime::AutogradExecutor& executor, const py::sequence& residents) {
  const std::vector<at::Tensor> given = unwrapped(residents);
  const py::gil_scoped_release unlocked;
  executor.send_away(given);
}

void rehearse(runtime::AutogradExecutor& executor, const py::sequence& residents) {
  const std::vector<at::Tensor> given = unwrapped(residents);
  const py::gil_scoped_release unlocked;
  executor.rehearse(given);
}

}  // namespace

const device::ComputeDevice& device_named(const std::string& name) {
  const c10::Device device(name);
  if (device.is_cuda()) know_gpu(device);
  return device::device_of(device);
}

std::vector<at::Tensor> unwrapped(const py::sequence& tensors) {
  std::vector<at::Tensor> result;
  result.reserve(tensors.size());
  for (const py::handle item : tensors) {
    if (!THPVariable_Check(item.ptr())) throw py::type_error("expected a list of tensors");
    result.push_back(THPVariable_Unpack(item.ptr()));
  }
  return result;
}

py::list wrapped(std::vector<at::Tensor> tensors) {
  py::list list;
  for (at::Tensor& tensor : tensors) {
    list.append(py::reinterpret_steal<py::object>(THPVariable_Wrap(std::move(tensor))));
  }
  return list;
}

void bind_executor(py::module_& module) {
  module.def("foreign_bytes", &foreign_bytes, py::arg("graph"));
  module.def(
      "generator_state_bytes",
      [](const Graph& graph, const std::string& device) {
        return runtime::generator_state_bytes(graph, device_named(device));
      },
      py::arg("graph"), py::arg("device") = kCpu);
  module.def("placed_bytes", &runtime::placed_bytes, py::arg("graph"));
  py::class_<runtime::AutogradExecutor>(module, "Executor",
                                        "Runs a plan in two halves, as autograd calls them.")
      .def(py::init(&make_executor), py::arg("graph"), py::arg("plan"), py::arg("device") = kCpu,
           py::arg("as_graph") = false, py::arg("slower") = py::none(),
           py::arg("second") = py::none(), py::keep_alive<1, 2>(), py::keep_alive<1, 3>(),
           py::keep_alive<1, 6>(), py::keep_alive<1, 7>())
      .def("send_away", &send_away, py::arg("residents"))
      .def("bring_back", &runtime::AutogradExecutor::bring_back,
           py::call_guard<py::gil_scoped_release>())
      .def_property_readonly("away_bytes", &runtime::AutogradExecutor::away_bytes)
      .def("forward", &forward, py::arg("residents"), py::arg("wanted"))
      .def("backward", &backward, py::arg("tangents"), py::arg("wanted"))
      .def("replay", &replay, py::arg("ticket"), py::arg("residents"), py::arg("tangents"),
           py::arg("wanted"))
      .def("rehearse", &rehearse, py::arg("residents"))
      .def_property_readonly("unrecordable_op", &runtime::AutogradExecutor::unrecordable_op)
      .def_property_readonly("recordings", &runtime::AutogradExecutor::recordings)
      .def_static(
          "ticket_size",
          [](const std::string& device) {
            return runtime::AutogradExecutor::ticket_size(device_named(device));
          },
          py::arg("device") = kCpu)
      .def_property_readonly("held_results", &runtime::AutogradExecutor::held_results)
      .def_property_readonly("idle", &runtime::AutogradExecutor::idle)
      .def_property_readonly("pending_pass", &runtime::AutogradExecutor::pending_pass)
      .def("is_pending",
           [](const runtime::AutogradExecutor& e, const py::handle& ticket) {
             return e.is_pending(THPVariable_Unpack(ticket.ptr()));
           })
      .def("set_aside", &runtime::AutogradExecutor::set_aside,
           py::call_guard<py::gil_scoped_release>())
      .def("resume",
           [](runtime::AutogradExecutor& e, const py::handle& ticket) {
             const at::Tensor number = THPVariable_Unpack(ticket.ptr());
             const py::gil_scoped_release unlocked;
             e.resume(number);
           })
      .def_property_readonly("aside_bytes", &runtime::AutogradExecutor::aside_bytes)
      .def_property_readonly("passes_aside", &runtime::AutogradExecutor::passes_aside)
      .def("discard", &runtime::AutogradExecutor::discard)
      .def("contains",
           [](const runtime::AutogradExecutor& e, const py::handle& tensor) {
             return e.contains(THPVariable_Unpack(tensor.ptr()));
           })
      .def("release", &runtime::AutogradExecutor::release)
      .def("release_unused", &runtime::AutogradExecutor::release_unused)
      .def_property_readonly("block_bytes", &runtime::AutogradExecutor::block_bytes)
      .def_property_readonly("generator_state_bytes",
                             &runtime::AutogradExecutor::generator_state_bytes)
      .def_property_readonly("held_bytes", &runtime::AutogradExecutor::held_bytes)
      .def_property_readonly("used_bytes", &runtime::AutogradExecutor::used_bytes)
      .def_property_readonly("moved", &moved)
      .def_property_readonly("overruns", &runtime::AutogradExecutor::overruns);
}

}  // namespace lowtide::python
