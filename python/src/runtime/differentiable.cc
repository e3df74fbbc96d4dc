#include <ATen/ops/empty_strided.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/dynamo/compiled_autograd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/error.h"
#include "device/autograd_node.h"
#include "tensors.h"

namespace lowtide::python {
namespace {

namespace compiled = torch::dynamo::autograd;
using torch::autograd::InputMetadata;
using torch::autograd::SavedVariable;
using torch::autograd::Variable;
using torch::autograd::variable_list;

using PackedTensors = compiled::IValuePacker<variable_list>;
using Positions = std::vector<std::size_t>;

/// A result that has a gradient, and the strides in which that is wanted.
struct Derived {
  std::size_t result;
  std::vector<std::int64_t> strides;
};

/// What all calls of one function have in common.
struct Halves {
  Halves() = default;
  Halves(const Halves&) = delete;
  Halves& operator=(const Halves&) = delete;
  /// The last one to hold it may be autograd, in any thread.
  ~Halves() {
    const py::gil_scoped_acquire locked;
    forward = {};
    backward = {};
  }

  std::uint64_t number = next_number();  ///< unlike that of any other in the process
  py::object forward;
  py::object backward;
  Positions saved_primals;
  Positions saved_results;
  Positions written;  ///< primals whose new values are the first results, and not returned
  Positions with_gradients;
  std::vector<Derived> derived;

 private:
  static std::uint64_t next_number() {
    static std::atomic<std::uint64_t> last = 0;
    return ++last;
  }
};

/// A gradient that says, when it is derived itself, that it cannot be. The edges lead to all that
/// it depends on, so that autograd comes by whatever it is derived by.
Variable without_gradient(const Variable& gradient, torch::autograd::edge_list edges) {
  static const std::string kWhy =
      "Lowtide plans one backward pass, so gradients of gradients cannot be computed: run this "
      "model without Lowtide where it is called with create_graph=True";
  Variable result = gradient.tensor_data();
  torch::autograd::set_history(
      result, device::make_node<torch::autograd::Error>(kWhy, std::move(edges)));
  return result;
}

/// Kernels read the elements of a tangent where they lie.
void require_elements(const Variable& tangent) {
  if (!tangent.defined() || tangent.has_storage()) return;
  throw InputError("Lowtide's backward pass takes one gradient for each result, and not a batch of "
                   "them (vectorize=True, is_grads_batched=True, vmap): call it once for each, or "
                   "run this model without Lowtide there");
}

void append(py::list& list, Variable tensor) {
  list.append(py::reinterpret_steal<py::object>(THPVariable_Wrap(std::move(tensor))));
}

/// What the backward half is given for a result: undefined (None) where the loss does not use it.
Variable tangent(const Derived& derived, const Variable& given) {
  if (!given.defined() || given.strides() == at::IntArrayRef(derived.strides)) return given;
  return at::empty_strided(given.sizes(), derived.strides, given.options()).copy_(given);
}

/// Calls the backward half. `saved` ends with the ticket. Gradients of what only unused results
/// depend on are undefined. Needs the GIL; throws py::error_already_set.
variable_list gradients(const Halves& halves, const variable_list& tangents,
                        const variable_list& saved) {
  py::list kept;
  for (const Variable& tensor : saved) append(kept, tensor);
  py::list given;
  for (std::size_t i = 0; i < tangents.size(); ++i) {
    require_elements(tangents[i]);
    append(given, tangent(halves.derived[i], tangents[i]));
  }
  const py::object ticket = kept[kept.size() - 1];
  const py::sequence by_primal = halves.backward(ticket, kept, given);
  variable_list list;
  for (const std::size_t position : halves.with_gradients) {
    const py::object gradient = by_primal[position];
    list.push_back(gradient.is_none() ? Variable() : THPVariable_Unpack(gradient.ptr()));
    if (at::GradMode::is_enabled() && list.back().defined()) {
      list.back() = without_gradient(list.back(),
                                     torch::autograd::collect_next_edges(tangents, saved));
    }
  }
  return list;
}

/// The backward pass of one call.
class PendingBackward final : public torch::autograd::Node {
 public:
  explicit PendingBackward(std::shared_ptr<const Halves> halves) : halves_(std::move(halves)) {}

  std::string name() const override { return "LowtideBackward"; }

  void save(const Variable& tensor, bool is_result) { saved_.emplace_back(tensor, is_result); }

  variable_list apply(variable_list&& tangents) override {
    const py::gil_scoped_acquire locked;
    const variable_list saved = unpacked();  // throws when it was released
    try {
      return gradients(*halves_, tangents, saved);
    } catch (py::error_already_set& error) {
      error.restore();
      python_error known_to_autograd;
      known_to_autograd.persist();
      throw known_to_autograd;
    }
  }

  /// For compiled autograd: what its graph of a backward pass depends on.
  void compiled_args(compiled::CompiledNodeArgs& args) const override {
    args.collect(halves_->number);
    args.collect(saved_, false);
  }

  /// For compiled autograd: puts the call into its graph, as one that it cannot look into.
  variable_list apply_with_saved(const variable_list& tangents,
                                 compiled::SwapSavedVariables& swapped) override {
    using Metadata = compiled::IValuePacker<std::vector<std::optional<InputMetadata>>>;
    const auto& compiler = compiled::getPyCompilerInterface();
    const std::string function = compiler->bind_function(
        swapped.get_py_compiler(), name(), called_later(), {PackedTensors::packed_type()},
        /*is_custom_function=*/true, /*is_traceable=*/false);
    swapped.before(saved_);
    variable_list derived = compiler->call_function(
        swapped.get_py_compiler(), "apply_functional", function, tangents,
        {PackedTensors::pack(unpacked())},
        Metadata::pack(compiled::get_input_metadata(next_edges())));
    swapped.after(saved_);
    return derived;
  }

  /// Whoever keeps a result keeps this node, which is to hold nothing of the model any more.
  void release_variables() override {
    for (SavedVariable& tensor : saved_) tensor.reset_data();
    halves_.reset();
  }

 private:
  variable_list unpacked() {
    variable_list list;
    for (const SavedVariable& tensor : saved_) list.push_back(tensor.unpack(getptr()));
    return list;
  }

  /// The backward half, for any call.
  compiled::functional_apply_t called_later() const {
    return [halves = halves_](const variable_list& tangents,
                              const std::vector<c10::IValue>& arguments) {
      const py::gil_scoped_acquire locked;
      return gradients(*halves, tangents, PackedTensors::unpack(arguments.front()));
    };
  }

  std::shared_ptr<const Halves> halves_;
  std::vector<SavedVariable> saved_;
};

Variable unpacked(const py::handle& value) { return THPVariable_Unpack(value.ptr()); }

/// A function of tensors with a gradient, both of which are functions of Python.
class Differentiable {
 public:
  explicit Differentiable(std::shared_ptr<const Halves> halves) : halves_(std::move(halves)) {}

  /// For the garbage collector: what this object alone holds. While a backward pass is to come,
  /// autograd holds the functions too, and no cycle through them may be broken.
  int traverse(visitproc visit, void* arg) const {
    if (halves_ == nullptr || halves_.use_count() > 1) return 0;
    Py_VISIT(halves_->forward.ptr());
    Py_VISIT(halves_->backward.ptr());
    return 0;
  }
  void clear() { halves_.reset(); }

  py::list call(const py::args& primals) const {
    try {
      return pending(primals);
    } catch (python_error& error) {  // of a hook on saved tensors
      error.restore();
      throw py::error_already_set();
    }
  }

 private:
  py::list pending(const py::args& primals) const {
    require_no_dual(primals);
    const py::tuple answer = halves_->forward(primals);
    const py::list results = answer[0];
    connect(primals, results, unpacked(answer[1]));
    const Positions& written = halves_->written;
    for (std::size_t i = 0; i < written.size(); ++i) {
      write(unpacked(primals[written[i]]), unpacked(results[i]));
    }
    return py::reinterpret_steal<py::list>(
        PyList_GetSlice(results.ptr(), static_cast<py::ssize_t>(written.size()),
                        static_cast<py::ssize_t>(results.size())));
  }

  /// A kernel may have written the value where it belongs.
  static void write(const Variable& target, const Variable& value) {
    const at::NoGradGuard no_grad;
    if (target.data_ptr() != value.data_ptr() || target.strides() != value.strides()) {
      target.copy_(value);
    } else if (!target.is_inference()) {
      target.unsafeGetTensorImpl()->bump_version();
    }
  }

  /// Forward mode would be lost without a word.
  static void require_no_dual(const py::args& primals) {
    for (const py::handle primal : primals) {
      if (!THPVariable_Check(primal.ptr())) continue;
      if (!torch::autograd::isFwGradDefined(unpacked(primal))) continue;
      throw InputError("Lowtide plans a forward and a backward pass, so forward mode cannot go "
                       "through it: run this model without Lowtide where its tangents are wanted");
    }
  }

  void connect(const py::args& primals, const py::list& results, const Variable& ticket) const {
    const auto node = device::make_node<PendingBackward>(halves_);
    torch::autograd::edge_list edges;
    for (const std::size_t position : halves_->with_gradients) {
      edges.push_back(torch::autograd::impl::gradient_edge(unpacked(primals[position])));
    }
    node->set_next_edges(std::move(edges));
    for (const Derived& one : halves_->derived) {
      torch::autograd::set_history(unpacked(results[one.result]), node);
    }
    for (const std::size_t position : halves_->saved_primals) {
      node->save(unpacked(primals[position]), false);
    }
    for (const std::size_t position : halves_->saved_results) {
      node->save(unpacked(results[position]), true);
    }
    node->save(ticket, false);
  }

  std::shared_ptr<const Halves> halves_;
};

Differentiable differentiable(py::object forward, py::object backward, Positions saved_primals,
                              Positions saved_results, Positions written, Positions with_gradients,
                              const std::vector<std::pair<std::size_t, std::vector<std::int64_t>>>&
                                  derived) {
  auto halves = std::make_shared<Halves>();
  halves->forward = std::move(forward);
  halves->backward = std::move(backward);
  halves->saved_primals = std::move(saved_primals);
  halves->saved_results = std::move(saved_results);
  halves->written = std::move(written);
  halves->with_gradients = std::move(with_gradients);
  for (const auto& [result, strides] : derived) halves->derived.push_back({result, strides});
  return Differentiable(std::move(halves));
}

/// The C++ object of a Python one; null while that is being made.
Differentiable* of_python(PyObject* self) {
  auto* instance = reinterpret_cast<py::detail::instance*>(self);
  if (!instance->get_value_and_holder().holder_constructed()) return nullptr;
  return py::cast<Differentiable*>(py::handle(self));
}

/// Its functions may hold what holds it: that is a cycle which only the collector finds.
void add_to_garbage_collector(PyHeapTypeObject* type) {
  type->ht_type.tp_flags |= Py_TPFLAGS_HAVE_GC;
  type->ht_type.tp_traverse = [](PyObject* self, visitproc visit, void* arg) -> int {
    Py_VISIT(Py_TYPE(self));
    const Differentiable* const function = of_python(self);
    return function == nullptr ? 0 : function->traverse(visit, arg);
  };
  type->ht_type.tp_clear = [](PyObject* self) -> int {
    if (Differentiable* const function = of_python(self)) function->clear();
    return 0;
  };
}

}  // namespace

void bind_differentiable(py::module_& module) {
  py::class_<Differentiable>(
      module, "Differentiable", py::custom_type_setup(&add_to_garbage_collector),
      "forward(primals) -> (results, ticket) and backward(ticket, saved, tangents) -> gradients as "
      "one function of autograd. Saved are primals, results and the ticket, in this order; the "
      "first results are new values of the primals that are written.")
      .def(py::init(&differentiable), py::kw_only(), py::arg("forward"), py::arg("backward"),
           py::arg("saved_primals"), py::arg("saved_results"), py::arg("written"),
           py::arg("with_gradients"), py::arg("derived"))
      .def("__call__", &Differentiable::call);
}

}  // namespace lowtide::python
