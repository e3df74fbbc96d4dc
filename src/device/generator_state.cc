#include "device/generator_state.h"

#include <cstring>
#include <mutex>
#include <optional>
#include <type_traits>

namespace lowtide::device {
namespace {

struct GeneratorState {
  at::mt19937_data_pod engine;
  std::optional<float> next_float;
  std::optional<double> next_double;
};
static_assert(std::is_trivially_copyable_v<GeneratorState>);

}  // namespace

Bytes cpu_generator_state_bytes() { return sizeof(GeneratorState); }

void save_cpu_generator(at::CPUGeneratorImpl& generator, std::byte* state) {
  const std::scoped_lock lock(generator.mutex_);
  const GeneratorState now{generator.engine().data(), generator.next_float_normal_sample(),
                           generator.next_double_normal_sample()};
  std::memcpy(state, &now, sizeof now);
}

void restore_cpu_generator(at::CPUGeneratorImpl& generator, const std::byte* state) {
  GeneratorState then;
  std::memcpy(&then, state, sizeof then);
  at::mt19937 engine;
  engine.set_data(then.engine);
  const std::scoped_lock lock(generator.mutex_);
  generator.set_engine(engine);
  generator.set_next_float_normal_sample(then.next_float);
  generator.set_next_double_normal_sample(then.next_double);
}

}  // namespace lowtide::device
