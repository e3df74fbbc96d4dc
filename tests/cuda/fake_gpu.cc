#include "fake_gpu.h"

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <array>
#include <atomic>
#include <chrono>
#include <set>

#include "fake_c10_cuda.h"

namespace lowtide::cuda {
namespace {

using Clock = std::chrono::steady_clock;

std::atomic<int> device_waits = 0, stream_waits = 0, lasting = 0;
thread_local c10::DeviceIndex current_index = 0;
thread_local std::array<c10::StreamId, FakeGpu::kDevices> current_streams{};

class Guards final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return c10::DeviceType::CUDA; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before = getDevice();
    setDevice(device);
    return before;
  }
  c10::Device getDevice() const override { return {c10::DeviceType::CUDA, current_index}; }
  void setDevice(c10::Device device) const override { current_index = device.index(); }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    current_index = device.index();
  }
  c10::Stream getStream(c10::Device device) const override {
    return stream_of(device.index(), current_streams.at(static_cast<std::size_t>(device.index())));
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const c10::Stream before = getStream(stream.device());
    current_streams.at(static_cast<std::size_t>(stream.device_index())) = stream.id();
    return before;
  }
  void* getStreamNativeHandle(const c10::Stream stream) const override {
    return reinterpret_cast<void*>(stream.id());
  }
  c10::DeviceIndex deviceCount() const noexcept override { return FakeGpu::kDevices; }
  void synchronizeStream(const c10::Stream&) const override { ++stream_waits; }
  void synchronizeDevice(c10::DeviceIndex) const override { ++device_waits; }

  /// Work is done when it is submitted, so an event is the time of its record.
  void record(void** event, const c10::Stream&, const c10::DeviceIndex,
              const c10::EventFlag) const override {
    if (*event == nullptr) *event = new Clock::time_point;
    *static_cast<Clock::time_point*>(*event) = Clock::now();
  }
  bool queryEvent(void*) const override { return true; }
  void synchronizeEvent(void*) const override {}
  double elapsedTime(void* before, void* after, const c10::DeviceIndex) const override {
    return std::chrono::duration<double, std::milli>(*static_cast<Clock::time_point*>(after) -
                                                     *static_cast<Clock::time_point*>(before))
        .count();
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    delete static_cast<Clock::time_point*>(event);
  }
};

C10_REGISTER_GUARD_IMPL(CUDA, Guards)

/// Numbers 1, 2, 3, ...: the offset, as that of Philox, moves on by four for each.
class Generator final : public c10::GeneratorImpl {
 public:
  explicit Generator(c10::DeviceIndex index)
      : GeneratorImpl({c10::DeviceType::CUDA, index}, c10::DispatchKeySet(c10::DispatchKey::CUDA)) {
  }
  void set_current_seed(std::uint64_t seed) override {
    seed_ = seed;
    offset_ = 0;
  }
  void set_offset(std::uint64_t offset) override { offset_ = offset; }
  std::uint64_t get_offset() const override { return offset_; }
  std::uint64_t current_seed() const override { return seed_; }
  std::uint64_t seed() override { return seed_; }
  void set_state(const c10::TensorImpl&) override { TORCH_CHECK(false, "not faked"); }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    TORCH_CHECK(false, "not faked");
  }

 private:
  GeneratorImpl* clone_impl() const override { return new Generator(device().index()); }
  std::uint64_t seed_ = 67280421310721, offset_ = 0;
};

struct Hooks final : at::CUDAHooksInterface {
  explicit Hooks(at::CUDAHooksArgs) {}
  void init() const override {}
  bool hasCUDA() const override { return true; }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override {
    static const std::array generators{at::make_generator<Generator>(0),
                                       at::make_generator<Generator>(1)};
    return generators.at(static_cast<std::size_t>(index));
  }
};

using at::CUDAHooksRegistry;
using at::RegistererCUDAHooksRegistry;
C10_REGISTER_TYPED_CLASS(CUDAHooksRegistry, "CUDAHooks", Hooks)

at::Tensor on_host(const at::Tensor& tensor) {
  return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(),
                       tensor.options().device(at::kCPU));
}

at::Tensor empty(c10::SymIntArrayRef size, std::optional<at::ScalarType> dtype,
                 std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>,
                 std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(C10_AS_INTARRAYREF_SLOW(size), fake_slot().load(),
                                   c10::DispatchKeySet(c10::DispatchKey::CUDA),
                                   dtype.value_or(at::kFloat), format);
}

/// As cuBLAS: the first product on a thread and stream takes memory, and keeps it.
void take_workspace_once() {
  thread_local std::set<std::pair<c10::DeviceIndex, c10::StreamId>> taken;
  const c10::Stream stream = Guards().getStream(Guards().getDevice());
  if (!taken.insert({stream.device_index(), stream.id()}).second) return;
  static auto* const kept = new std::vector<c10::DataPtr>;
  kept->push_back(fake_slot().load()->allocate(1 << 16));
  ++lasting;
}

at::Tensor mm(const at::Tensor& a, const at::Tensor& b) {
  take_workspace_once();
  at::Tensor result = at::empty({a.size(0), b.size(1)}, a.options());
  on_host(result).copy_(at::mm(on_host(a), on_host(b)));
  return result;
}

at::Tensor addmm(const at::Tensor& c, const at::Tensor& a, const at::Tensor& b,
                 const at::Scalar& beta, const at::Scalar& alpha) {
  take_workspace_once();
  at::Tensor result = at::empty({a.size(0), b.size(1)}, a.options());
  on_host(result).copy_(at::addmm(on_host(c), on_host(a), on_host(b), beta, alpha));
  return result;
}

at::Tensor empty_strided(c10::SymIntArrayRef size, c10::SymIntArrayRef stride,
                         std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                         std::optional<at::Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(
      C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride), fake_slot().load(),
      c10::DispatchKeySet(c10::DispatchKey::CUDA), dtype.value_or(at::kFloat));
}

at::Tensor& copy(at::Tensor& to, const at::Tensor& from, bool) {
  on_host(to).copy_(on_host(from));
  return to;
}

at::Tensor as_strided(const at::Tensor& tensor, c10::SymIntArrayRef size,
                      c10::SymIntArrayRef stride, std::optional<c10::SymInt> offset) {
  auto view = at::detail::make_tensor<c10::TensorImpl>(
      c10::TensorImpl::VIEW, c10::Storage(tensor.storage()), tensor.key_set(), tensor.dtype());
  view.unsafeGetTensorImpl()->set_sizes_and_strides(
      C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride),
      offset ? offset->expect_int() : tensor.storage_offset());
  return view;
}

at::Tensor view(const at::Tensor& tensor, c10::SymIntArrayRef size) {
  const at::Tensor host = on_host(tensor).view(C10_AS_INTARRAYREF_SLOW(size));
  return tensor.as_strided(host.sizes(), host.strides());
}

/// A result of a kernel of the host: the argument that it wrote, or a copy in memory of the slot.
at::Tensor from_host(const at::Tensor& host, const std::vector<at::Tensor>& arguments) {
  if (!host.defined()) return host;
  for (const at::Tensor& argument : arguments) {
    if (host.data_ptr() == argument.data_ptr() && host.sizes() == argument.sizes()) return argument;
  }
  at::Tensor result =
      at::empty_strided(host.sizes(), host.strides(), host.options().device(at::kCUDA));
  on_host(result).copy_(host);
  return result;
}

/// Every other op runs the host's kernel on the same bytes.
void run_on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  std::vector<at::Tensor> arguments;
  const std::size_t inputs = op.schema().arguments().size();
  for (std::size_t i = stack->size() - inputs; i < stack->size(); ++i) {
    c10::IValue& value = (*stack)[i];
    if (value.isDevice()) value = at::Device(at::kCPU);
    if (!value.isTensor() || !value.toTensor().is_cuda()) continue;
    arguments.push_back(value.toTensor());
    value = on_host(arguments.back());
  }
  op.callBoxed(stack);
  const std::size_t results = op.schema().returns().size();
  for (std::size_t i = stack->size() - results; i < stack->size(); ++i) {
    if ((*stack)[i].isTensor()) (*stack)[i] = from_host((*stack)[i].toTensor(), arguments);
  }
}

TORCH_LIBRARY_IMPL(_, CUDA, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_host>());
}

TORCH_LIBRARY_IMPL(aten, CUDA, library) {
  library.impl("empty.memory_format", &empty);
  library.impl("empty_strided", &empty_strided);
  library.impl("copy_", &copy);
  library.impl("as_strided", &as_strided);
  library.impl("view", &view);
  library.impl("mm", &mm);
  library.impl("addmm", &addmm);
}

}  // namespace

int FakeGpu::device_waits() { return cuda::device_waits; }
int FakeGpu::stream_waits() { return cuda::stream_waits; }
int FakeGpu::lasting_workspaces() { return lasting; }

c10::Stream stream_of(c10::DeviceIndex device, c10::StreamId id) {
  return c10::Stream(c10::Stream::UNSAFE, {c10::DeviceType::CUDA, device}, id);
}

}  // namespace lowtide::cuda
