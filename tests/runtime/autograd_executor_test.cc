#include "runtime/autograd_executor.h"

#include "base/error.h"
#include "device/host_place.h"
#include "graph/boundary.h"
#include "graph/handed_out.h"
#include "offload/joint.h"
#include "runtime/training_sample.h"
#include "slower/faulty_calls.h"
#include "slower/file_store.h"
#include "slower/host_store.h"
#include "support/temp_folder.h"

namespace lowtide::runtime {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// y = tanh(dropout(relu(x w))) in the caller's memory, and the gradient of w for a given gradient
/// of y: in the form of a capture.
struct Halves {
  Graph graph;
  TensorId x, w, y, gradient;
};

Halves make_halves() {
  GraphMaker m("halves");
  const TensorId x = m.resident("x", {16, 32}, kNormal, DType::f32, Role::input);
  const TensorId w = m.resident("w", {32, 32}, kNormal);
  const TensorId product = m.op1("aten::mm", {T{x}, T{w}});
  const TensorId relu = m.op1("aten::relu", {T{product}});
  const auto dropped = m.op("aten::native_dropout", {T{relu}, 0.4, true});
  const TensorId y = m.op1("aten::tanh", {T{dropped[0]}});
  const TensorId given = m.op1("aten::clone", {T{y}});  // becomes the boundary below
  const TensorId d_tanh = m.op1("aten::tanh_backward", {T{given}, T{y}});
  const TensorId d_drop =
      m.op1("aten::native_dropout_backward", {T{d_tanh}, T{dropped[1]}, 1 / 0.6});
  const TensorId d_relu = m.op1("aten::threshold_backward", {T{d_drop}, T{relu}, std::int64_t{0}});
  const TensorId turned = m.op1("aten::t", {T{x}});
  const TensorId gradient = m.op1("aten::mm", {T{turned}, T{d_relu}});
  GraphData& data = m.data();
  for (TensorId id : {y, given}) data.tensors[static_cast<std::size_t>(id)].bytes = 0;
  for (Op& op : data.ops) {
    if (op.type == "aten::clone") op.type = kBoundary;
    const bool once = op.outputs[0] == y || is_boundary(op);
    if (once) op.recomputable = false;
    if (once) op.inplace.clear();
  }
  return {m.build({y, gradient}), x, w, y, gradient};
}

/// Product, activation and dropout once more after the boundary.
Plan recomputing(const Graph& graph) {
  std::vector<OpId> order;
  for (OpId id = 0; id < graph.num_ops(); ++id) {
    order.push_back(id);
    if (is_boundary(graph.op(id))) order.insert(order.end(), {0, 1, 2});
  }
  return with_layout(graph, with_in_place(graph, lower(graph, order)));
}

struct Inputs {
  explicit Inputs(const at::TensorOptions& options)
      : x(at::randn({16, 32}, options)),
        w(at::randn({32, 32}, options)),
        given(at::randn({16, 32}, options)) {}
  at::Tensor x, w, given;
  std::vector<at::Tensor> residents() const { return {x, w}; }
};

struct HalvesStep {
  at::Tensor y, gradient;
};

HalvesStep run(AutogradExecutor& executor, const Halves& halves, const Inputs& inputs) {
  const std::vector<TensorId> y{halves.y};
  const std::vector<TensorId> gradient{halves.gradient};
  const auto forward = executor.forward(inputs.residents(), y);
  const std::vector<at::Tensor> tangents{inputs.given};
  return {forward.results[0], executor.backward(tangents, gradient)[0]};
}

HalvesStep eager(const Inputs& inputs) {
  const at::Tensor relu = at::relu(at::mm(inputs.x, inputs.w));
  const auto [dropped, mask] = at::native_dropout(relu, 0.4, true);
  const at::Tensor y = at::tanh(dropped);
  const at::Tensor d_drop =
      at::native_dropout_backward(at::tanh_backward(inputs.given, y), mask, 1 / 0.6);
  return {y, at::mm(inputs.x.t(), at::threshold_backward(d_drop, relu, 0))};
}

class AutogradExecutorTest : public device::OnEachDevice {
 protected:
  const Halves& measured() const { return measured_on(device(), make_halves); }
  const Graph& graph() const { return measured().graph; }
  Inputs inputs() const { return Inputs(options()); }
  void seed(std::uint64_t seed) const { seed_generator(device(), seed); }
  HalvesStep run_step(AutogradExecutor& executor, const Inputs& given) const {
    return run(executor, measured(), given);
  }
  std::vector<at::Tensor> residents() const { return inputs().residents(); }
};

ON_EACH_DEVICE(AutogradExecutorTest);

TEST_P(AutogradExecutorTest, ComputesWhatEagerComputesWithOtherInputsEachTime) {
  ASSERT_GT(recomputing(graph()).cost, keep_all_plan(graph()).cost);
  for (const Plan& plan : {keep_all_plan(graph()), recomputing(graph())}) {
    AutogradExecutor executor(graph(), plan, device());
    for (int step = 0; step < 3; ++step) {
      const Inputs given = inputs();
      seed(static_cast<std::uint64_t>(step));
      const HalvesStep expected = eager(given);
      const at::Tensor state = generator_state(device());
      seed(static_cast<std::uint64_t>(step));
      const HalvesStep got = run_step(executor, given);
      EXPECT_TRUE(at::equal(got.y, expected.y));
      EXPECT_TRUE(at::equal(got.gradient, expected.gradient));
      EXPECT_TRUE(at::equal(generator_state(device()), state));
      EXPECT_THAT(executor.overruns(), ::testing::IsEmpty());
    }
  }
}

TEST_P(AutogradExecutorTest, ResultsOfTheForwardPassLieOutsideAndHoldNothing) {
  const Plan plan = keep_all_plan(graph());
  AutogradExecutor executor(graph(), plan, device());
  const HalvesStep kept = run_step(executor, inputs());
  EXPECT_FALSE(executor.contains(kept.y));
  EXPECT_TRUE(executor.contains(kept.gradient));
  EXPECT_FALSE(executor.idle());
  const at::Tensor copy = kept.gradient.clone();
  const at::Tensor y = kept.y.clone();
  executor.release();
  EXPECT_TRUE(executor.idle());
  run_step(executor, inputs());
  EXPECT_TRUE(at::equal(kept.gradient, copy));
  EXPECT_TRUE(at::equal(kept.y, y));
}

TEST_P(AutogradExecutorTest, ADroppedTicketEndsTheWait) {
  const Plan plan = keep_all_plan(graph());
  AutogradExecutor executor(graph(), plan, device());
  {
    const auto forward = executor.forward(residents(), {});
    EXPECT_EQ(executor.pending_pass(), forward.ticket[0].item<std::int64_t>());
    EXPECT_FALSE(executor.idle());
    EXPECT_THROW(executor.forward(residents(), {}), std::logic_error);
  }
  EXPECT_TRUE(executor.idle());
  EXPECT_EQ(executor.pending_pass(), 0);
}

TEST_P(AutogradExecutorTest, FliesATicketAgainWithTheNumbersThatItDrew) {
  const std::vector<TensorId> wanted{measured().gradient};
  for (const Plan& plan : {keep_all_plan(graph()), recomputing(graph())}) {
    const Inputs given = inputs();
    seed(7);
    const HalvesStep expected = eager(given);
    seed(7);
    AutogradExecutor first(graph(), plan, device());
    const auto forward = first.forward(given.residents(), {});
    const std::vector<at::Tensor> tangents{given.given};
    first.backward(tangents, wanted);
    at::randn({5}, options());  // the generator has moved when the ticket's pass is replayed
    const at::Tensor state = generator_state(device());
    AutogradExecutor second(graph(), plan, device());
    for (AutogradExecutor* executor : {&first, &second, &first}) {
      const auto gradient = executor->replay(forward.ticket, given.residents(), tangents, wanted);
      EXPECT_TRUE(at::equal(gradient[0], expected.gradient));
      EXPECT_TRUE(at::equal(generator_state(device()), state));
      EXPECT_EQ(executor->pending_pass(), 0);
    }
  }
}

TEST_P(AutogradExecutorTest, AFlightThatIsGivenUpHoldsNothing) {
  const Plan plan = keep_all_plan(graph());
  AutogradExecutor executor(graph(), plan, device());
  const auto forward = executor.forward(residents(), {});
  EXPECT_TRUE(executor.is_pending(forward.ticket));
  executor.discard();
  EXPECT_FALSE(executor.is_pending(forward.ticket));
  EXPECT_TRUE(executor.idle());
  executor.release();
  EXPECT_EQ(executor.held_bytes(), 0);
  EXPECT_THAT([&] { executor.replay(at::zeros({1}), {}, {}, {}); },
              ThrowsMessage<InputError>(HasSubstr("no ticket")));
}

TEST_P(AutogradExecutorTest, GivesItsBlockBack) {
  const Plan plan = keep_all_plan(graph());
  AutogradExecutor executor(graph(), plan, device());
  EXPECT_EQ(executor.held_bytes(), 0);
  run_step(executor, inputs());
  EXPECT_EQ(executor.held_bytes(), executor.block_bytes());
  executor.release();
  EXPECT_EQ(executor.held_bytes(), 0);
  run_step(executor, inputs());
}

/// With gradients in a section of their own.
Plan sectioned(const Graph& graph, Plan plan) {
  const Graph after = with_after_bytes(graph, Bytes{1} << 40);
  plan.layout = layout::assign_addresses(after, plan, {.capacity = Bytes{1} << 20});
  if (plan.layout->borders.size() != 1 || verify(after, plan)) {
    throw std::logic_error("no good layout with a border");
  }
  return plan;
}

TEST_P(AutogradExecutorTest, GivesBackAllSectionsButThatOfTheGradients) {
  const Bytes gradient_bytes = graph().tensor(measured().gradient).bytes;
  for (const Plan& plan :
       {sectioned(graph(), keep_all(graph())), sectioned(graph(), recomputing(graph()))}) {
    AutogradExecutor executor(graph(), plan, device());
    for (int step = 0; step < 3; ++step) {
      const Inputs given = inputs();
      seed(static_cast<std::uint64_t>(step));
      const HalvesStep expected = eager(given);
      seed(static_cast<std::uint64_t>(step));
      HalvesStep got = run_step(executor, given);
      EXPECT_EQ(executor.held_bytes(), executor.block_bytes());
      executor.release_unused();
      EXPECT_EQ(executor.held_bytes(), gradient_bytes);
      EXPECT_TRUE(executor.contains(got.gradient));
      EXPECT_FALSE(executor.idle());
      EXPECT_TRUE(at::equal(got.y, expected.y));
      EXPECT_TRUE(at::equal(got.gradient, expected.gradient));
      got = {};
      executor.release_unused();
      EXPECT_EQ(executor.held_bytes(), 0);
      EXPECT_TRUE(executor.idle());
    }
    const auto forward = executor.forward(residents(), {});
    executor.release_unused();  // the backward pass needs all of it
    EXPECT_EQ(executor.held_bytes(), executor.block_bytes());
  }
}

/// A block without sections stays, so that the next step need not take it again.
TEST_P(AutogradExecutorTest, GivesStatesOfTheGeneratorBackWhenNoPassNeedsThem) {
  const Plan plan = recomputing(graph());
  AutogradExecutor executor(graph(), plan, device());
  const Bytes arena_bytes = plan.layout->arena_bytes - graph().resident_bytes();
  EXPECT_EQ(executor.block_bytes() > arena_bytes, device().is_host_memory());
  const Inputs given = inputs();
  seed(3);
  const HalvesStep expected = eager(given);
  for (int step = 0; step < 3; ++step) {
    seed(3);
    const auto forward = executor.forward(given.residents(), {});
    executor.release_unused();
    EXPECT_EQ(executor.held_bytes(), executor.block_bytes());
    executor.set_aside();
    executor.release_unused();
    EXPECT_EQ(executor.held_bytes(), executor.block_bytes());
    executor.resume(forward.ticket);
    const std::vector<at::Tensor> tangents{given.given};
    const std::vector<TensorId> wanted{measured().gradient};
    EXPECT_TRUE(at::equal(executor.backward(tangents, wanted)[0], expected.gradient));
    executor.release_unused();
    EXPECT_EQ(executor.held_bytes(), arena_bytes);
  }
}

/// Other allocations may get the addresses of the released section.
TEST_P(AutogradExecutorTest, TakesSectionsAtOtherAddresses) {
  const Plan plan = sectioned(graph(), recomputing(graph()));
  AutogradExecutor executor(graph(), plan, device());
  std::vector<at::Tensor> others;
  for (int step = 0; step < 4; ++step) {
    const Inputs given = inputs();
    seed(3);
    const HalvesStep expected = eager(given);
    seed(3);
    const HalvesStep got = run_step(executor, given);
    EXPECT_TRUE(at::equal(got.gradient, expected.gradient));
    executor.release_unused();
    for (Bytes bytes : {plan.layout->arena_bytes - plan.layout->borders[0], Bytes{4096}}) {
      others.push_back(at::zeros({bytes}, options(at::kByte)));
    }
  }
  for (const at::Tensor& other : others) EXPECT_EQ(other.sum().item<std::int64_t>(), 0);
}

/// Plans that move values, within several budgets.
std::vector<Plan> moving(const Graph& graph) {
  const Bytes residents = graph.resident_bytes();
  const Bytes beside = keep_all_reference(graph).peak_bytes - residents;
  std::vector<Plan> plans;
  for (int percent = 99; percent >= 40; percent -= 4) {
    Control control = Control::by_work(0.1);
    auto planned = offload::plan_with(graph, residents + beside * percent / 100, {},
                                      offload::Ways::move, control);
    if (planned.plan && planned.plan->slower) plans.push_back(std::move(*planned.plan));
  }
  if (plans.empty()) throw std::logic_error("no plan moves a value");
  return plans;
}

/// Slow, so that copies are under way when ops and the caller's code run.
std::unique_ptr<slower::Store> slow_store(const device::ComputeDevice& device, Bytes bytes) {
  const slower::Speed speed{.latency_seconds = 1e-3, .bytes_per_second = 1e8};
  if (device.is_host_memory()) {
    return std::make_unique<slower::HostStore>(bytes, slower::LaneSpeed{speed, speed, false});
  }
  return device::HostPlace(device).open(bytes);
}

TEST_P(AutogradExecutorTest, MovesValuesAndComputesWhatEagerComputes) {
  for (const Plan& plan : moving(graph())) {
    using Launch = AutogradExecutor::Launch;
    AutogradExecutor executor(graph(), plan, device(), Launch::one_by_one,
                              slow_store(device(), plan.slower->bytes));
    for (int step = 0; step < 3; ++step) {
      const Inputs given = inputs();
      seed(static_cast<std::uint64_t>(step));
      const HalvesStep expected = eager(given);
      seed(static_cast<std::uint64_t>(step));
      const HalvesStep got = run_step(executor, given);
      EXPECT_TRUE(at::equal(got.y, expected.y));
      EXPECT_TRUE(at::equal(got.gradient, expected.gradient));
      EXPECT_GT(executor.moved().sum().bytes_out, 0);
      EXPECT_GE(executor.moved().sum().bytes_in, executor.moved().sum().bytes_out);
      EXPECT_LE(executor.used_bytes(), executor.block_bytes());
      if (step == 1) executor.release();  // the gradient keeps the block, and others are taken
    }
  }
}

TEST_P(AutogradExecutorTest, APassThatIsGivenUpWhileValuesMoveIsReplayed) {
  const Plan plan = moving(graph()).front();
  const std::vector<TensorId> wanted{measured().gradient};
  AutogradExecutor executor(graph(), plan, device(), AutogradExecutor::Launch::one_by_one,
                            slow_store(device(), plan.slower->bytes));
  const Inputs given = inputs();
  seed(7);
  const HalvesStep expected = eager(given);
  seed(7);
  const auto forward = executor.forward(given.residents(), {});
  executor.discard();
  executor.release();
  const std::vector<at::Tensor> tangents{given.given};
  EXPECT_TRUE(at::equal(executor.replay(forward.ticket, given.residents(), tangents, wanted)[0],
                        expected.gradient));
  { const auto dropped = executor.forward(given.residents(), {}); }
  EXPECT_TRUE(executor.idle());
  executor.release_unused();
  run_step(executor, given);
}

TEST(AutogradExecutor, AFailedCopyNamesTheValueAndTheNextStepIsRight) {
  const device::ComputeDevice& cpu = device::cpu_device();
  const Halves& halves = measured_on(cpu, make_halves);
  const Plan plan = moving(halves.graph).front();
  const lowtide::testing::TempFolder folder;
  slower::FaultyCalls calls;
  AutogradExecutor executor(halves.graph, plan, cpu, AutogradExecutor::Launch::one_by_one,
                            std::make_unique<slower::FileStore>(
                                folder.path(), plan.slower->bytes,
                                slower::FileOptions{.calls = &calls}));
  const Inputs given(at::TensorOptions(at::kFloat));
  const auto expected = [&] {
    seed_generator(cpu, 7);
    return eager(given).gradient;
  }();
  const auto gradient = [&] {
    seed_generator(cpu, 7);
    return run(executor, halves, given).gradient;
  };
  const std::string& name = halves.graph.tensor(plan.slower->copies.front().storage).name;
  for (const bool is_read : {true, false}) {
    if (is_read) calls.fail_reads(slower::Fault::error, -1);
    if (!is_read) calls.fail_writes(slower::Fault::error, -1, ENOSPC);
    EXPECT_THAT(gradient, ThrowsMessage<Error>(::testing::AllOf(
                              HasSubstr(name), HasSubstr(folder.path().string()))));
    EXPECT_TRUE(executor.idle());
    calls.fail_reads(slower::Fault::none, 0);
    calls.fail_writes(slower::Fault::none, 0);
    EXPECT_TRUE(at::equal(gradient(), expected));
  }
}

TEST_P(AutogradExecutorTest, RefusesToMoveValuesWithoutRoomForThem) {
  const Plan plan = moving(graph()).front();
  using Launch = AutogradExecutor::Launch;
  const auto make = [&](std::unique_ptr<slower::Store> store) {
    AutogradExecutor(graph(), plan, device(), Launch::one_by_one, std::move(store));
  };
  EXPECT_THAT([&] { make(nullptr); },
              ThrowsMessage<InputError>(HasSubstr("and the executor has 0")));
  EXPECT_THAT([&] { make(slow_store(device(), plan.slower->bytes - 1)); },
              ThrowsMessage<InputError>(HasSubstr("give it so many")));
  if (device().is_host_memory()) return;
  EXPECT_THAT([&] { make(std::make_unique<slower::HostStore>(plan.slower->bytes)); },
              ThrowsMessage<InputError>(HasSubstr("cannot copy from and to memory of")));
}

TEST_P(AutogradExecutorTest, RefusesWhatDoesNotFit) {
  const Plan plan = keep_all_plan(graph());
  AutogradExecutor executor(graph(), plan, device());
  const std::vector<at::Tensor> wrong{at::zeros({4, 32}, options()),
                                      at::zeros({32, 32}, options())};
  EXPECT_THAT([&] { executor.forward(wrong, {}); },
              ThrowsMessage<InputError>(HasSubstr("\"x\" is Float of shape 4x32")));
  const Sample& s = measured_on(device(), sample);
  const Plan other = keep_all_plan(s.graph);
  EXPECT_THAT([&] { AutogradExecutor(s.graph, other, device()); },
              ThrowsMessage<InputError>(HasSubstr("no boundary")));
  EXPECT_THAT([&] { Executor(graph(), plan, {.device = &device()}); },
              ThrowsMessage<InputError>(HasSubstr("run it from PyTorch")));
}

}  // namespace
}  // namespace lowtide::runtime
