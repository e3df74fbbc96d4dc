// Ops that keep a number on the host for others, as attention on a GPU keeps the seed of its
// dropout.
#include <torch/library.h>

#include <atomic>

#include "graph/boundary.h"
#include "runtime/autograd_executor.h"
#include "runtime/training_sample.h"

namespace lowtide::runtime {
namespace {

std::atomic<int> numbers_on_device = 0;  // that multiplied() was given

std::tuple<at::Tensor, at::Tensor> doubled(const at::Tensor& x) {
  return {x * 2, at::scalar_tensor(x.flatten()[0].item<float>())};
}

at::Tensor multiplied(const at::Tensor& x, const at::Tensor& number) {
  if (!number.is_cpu()) ++numbers_on_device;
  return x * number.item<float>();
}

void register_ops() {
  static auto* const ops = [] {
    auto* const all =
        new torch::Library(torch::Library::DEF, "numbers", std::nullopt, __FILE__, __LINE__);
    all->def("doubled(Tensor x) -> (Tensor, Tensor)",
             torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, TORCH_FN(doubled)));
    all->def("multiplied(Tensor x, Tensor number) -> Tensor",
             torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, TORCH_FN(multiplied)));
    return all;
  }();
  static_cast<void>(ops);
}

/// y = 2 x, and the given gradient times the first element of x.
struct Scaled {
  Graph graph;
  TensorId y, gradient;
};

Scaled make_scaled() {
  register_ops();
  GraphMaker m("scaled");
  const TensorId x = m.resident("x", {4, 8}, kNormal, DType::f32, Role::input);
  const auto made = m.op("numbers::doubled", {T{x}});
  const TensorId y = m.op1("aten::tanh", {T{made[0]}});
  const TensorId given = m.op1("aten::clone", {T{y}});  // becomes the boundary below
  const TensorId gradient = m.op1("numbers::multiplied", {T{given}, T{made[1]}});
  GraphData& data = m.data();
  for (TensorId id : {y, given}) data.tensors[static_cast<std::size_t>(id)].bytes = 0;
  for (Op& op : data.ops) {
    if (op.type == "aten::clone") op.type = kBoundary;
    if (op.outputs[0] == y || is_boundary(op)) {
      op.recomputable = false;
      op.inplace.clear();
    }
  }
  return {m.build({y, gradient}), y, gradient};
}

class NumbersOnHost : public device::OnEachDevice {
 protected:
  const Scaled& measured() const { return measured_on(device(), make_scaled); }
  at::Tensor input(float first) const { return at::full({4, 8}, first, options()); }
};

ON_EACH_DEVICE(NumbersOnHost);

/// A pass that was set aside has its own number, and the op is given it on the host.
TEST_P(NumbersOnHost, ArePartOfTheirPass) {
  const Scaled& scaled = measured();
  const Plan plan = keep_all_plan(scaled.graph);
  AutogradExecutor executor(scaled.graph, plan, device());
  const std::vector<TensorId> y{scaled.y}, wanted{scaled.gradient};
  const std::vector<at::Tensor> given{at::ones({4, 8}, options())};
  numbers_on_device = 0;
  for (int step = 0; step < 2; ++step) {
    const auto first = executor.forward(std::vector{input(3)}, y);
    executor.set_aside();
    const auto second = executor.forward(std::vector{input(5)}, y);
    EXPECT_TRUE(executor.backward(given, wanted)[0].eq(5).all().item<bool>());
    executor.resume(first.ticket);
    EXPECT_TRUE(executor.backward(given, wanted)[0].eq(3).all().item<bool>());
  }
  EXPECT_EQ(numbers_on_device, 0);
}

}  // namespace
}  // namespace lowtide::runtime
