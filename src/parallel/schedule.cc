#include "parallel/schedule.h"

#include <algorithm>

namespace lowtide::parallel {

std::string_view name(Schedule schedule) {
  switch (schedule) {
    case Schedule::gpipe: return "gpipe";
    case Schedule::one_f_one_b: return "1f1b";
    case Schedule::interleaved: break;
  }
  return "interleaved";
}

std::int64_t most_in_flight(const Pipeline& pipeline, int stage) {
  const std::int64_t all = pipeline.micro_batches * pipeline.chunks;
  const std::int64_t after = pipeline.stages - stage;
  switch (pipeline.schedule) {
    case Schedule::gpipe: return all;
    case Schedule::one_f_one_b: return std::min(all, after);
    case Schedule::interleaved: break;
  }
  return std::min(all, 2 * (after - 1) + std::int64_t{pipeline.chunks - 1} * pipeline.stages + 1);
}

std::int64_t most_of_first_unit(const Pipeline& pipeline) {
  if (pipeline.chunks == 1) return most_in_flight(pipeline, 0);
  return std::min(pipeline.micro_batches, std::int64_t{2} * pipeline.stages);
}

StepWeights step_weights(const Pipeline& pipeline) {
  const auto times = static_cast<double>(pipeline.micro_batches);
  switch (pipeline.schedule) {
    case Schedule::gpipe: return {.slowest = times - 1, .sum = 1, .apart = true};
    case Schedule::one_f_one_b: return {.slowest = times - 1, .sum = 1};
    case Schedule::interleaved: break;
  }
  return {.slowest = times + static_cast<double>(pipeline.stages - 1) / pipeline.chunks,
          .apart = true};
}

}  // namespace lowtide::parallel
