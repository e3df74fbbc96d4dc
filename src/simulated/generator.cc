#include "simulated/generator.h"

#include <ATen/CPUGeneratorImpl.h>

#include <mutex>
#include <utility>

#include "simulated/capture.h"
#include "simulated/state.h"

namespace lowtide::simulated {
namespace {

class DeviceGenerator final : public c10::GeneratorImpl {
 public:
  explicit DeviceGenerator(at::Generator host)
      : c10::GeneratorImpl(kDevice, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
        host_(std::move(host)) {}

  static c10::DeviceType device_type() { return kDeviceType; }

  void set_current_seed(std::uint64_t seed) override { outside_captures().set_current_seed(seed); }
  void set_offset(std::uint64_t offset) override { outside_captures().set_offset(offset); }
  std::uint64_t get_offset() const override { return outside_captures().get_offset(); }
  std::uint64_t current_seed() const override { return outside_captures().current_seed(); }
  std::uint64_t seed() override { return outside_captures().seed(); }
  void set_state(const c10::TensorImpl& state) override {
    outside_captures().unsafeGetGeneratorImpl()->set_state(state);
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    return outside_captures().unsafeGetGeneratorImpl()->get_state();
  }

  const at::Generator& host() const { return host_; }

 private:
  DeviceGenerator* clone_impl() const override { return new DeviceGenerator(host_.clone()); }

  /// A replay draws other numbers than the capture, so that a state seen there would be wrong.
  at::Generator outside_captures() const {
    refuse_in_own_capture("a read or write of a generator's state");
    return host_;
  }

  at::Generator host_;
};

at::CPUGeneratorImpl& default_host_generator() {
  return *at::check_generator<at::CPUGeneratorImpl>(at::detail::getDefaultCPUGenerator());
}

void swap_states(at::CPUGeneratorImpl& a, at::CPUGeneratorImpl& b) {
  const std::scoped_lock lock(a.mutex_, b.mutex_);
  const at::mt19937 engine = a.engine();
  const std::optional<float> next_float = a.next_float_normal_sample();
  const std::optional<double> next_double = a.next_double_normal_sample();
  a.set_engine(b.engine());
  a.set_next_float_normal_sample(b.next_float_normal_sample());
  a.set_next_double_normal_sample(b.next_double_normal_sample());
  b.set_engine(engine);
  b.set_next_float_normal_sample(next_float);
  b.set_next_double_normal_sample(next_double);
}

void swap_default_states() {
  const at::Generator host = host_generator(default_generator());
  swap_states(default_host_generator(), *at::check_generator<at::CPUGeneratorImpl>(host));
}

}  // namespace

at::Generator make_generator() {
  return at::make_generator<DeviceGenerator>(at::detail::createCPUGenerator());
}

const at::Generator& default_generator() {
  static const at::Generator* const generator = new at::Generator(make_generator());
  return *generator;
}

bool is_device_generator(const at::Generator& generator) {
  return generator.defined() && generator.device().type() == kDeviceType;
}

at::Generator host_generator(const at::Generator& generator) {
  return at::check_generator<DeviceGenerator>(generator)->host();
}

DeviceDraws::DeviceDraws() { swap_default_states(); }

DeviceDraws::~DeviceDraws() { swap_default_states(); }

}  // namespace lowtide::simulated
