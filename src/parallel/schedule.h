#pragma once

#include <cstdint>
#include <string_view>

namespace lowtide::parallel {

/// The order in which a stage of a pipeline runs its micro-batches.
enum class Schedule : std::uint8_t {
  /// All forward passes, then all backward passes (Huang et al., GPipe, NeurIPS 2019).
  gpipe,
  /// A few forward passes, then one forward and one backward pass in turn (Narayanan et al.,
  /// PipeDream, SOSP 2019; with a flush at the end of a step).
  one_f_one_b,
  /// The same with several stages, called chunks, on each rank (Narayanan et al., Efficient
  /// large-scale language model training on GPU clusters using Megatron-LM, SC 2021).
  interleaved
};
std::string_view name(Schedule schedule);

struct Pipeline {
  Schedule schedule = Schedule::one_f_one_b;
  int stages = 1;                  ///< ranks, one after another
  int chunks = 1;                  ///< on each rank; more than 1 with interleaved alone
  std::int64_t micro_batches = 1;  ///< interleaved: a multiple of the stages
};

/// Forward passes of one chunk whose backward pass is to come, at most, on the rank of a stage
/// (from 0). GPipe: all micro-batches; 1F1B: stages - stage; interleaved: (stages - stage - 1) 2 +
/// (chunks - 1) stages + 1. Never more than there are.
std::int64_t most_in_flight(const Pipeline& pipeline, int stage);

/// What a step's time is made of, with T as the time of one micro-batch on a rank, all its chunks
/// together: slowest x max T + sum x (T of all ranks added up). With equal ranks that is
/// micro-batches x T x (1 + bubble), where the bubble is (stages - 1) / (micro-batches x chunks).
///
/// For GPipe and 1F1B that is the makespan of a pipeline whose slowest rank never waits once its
/// first micro-batch arrived. GPipe: exact, where max T is the sum of the slowest forward and the
/// slowest backward pass, which may be on two ranks.
struct StepWeights {
  double slowest = 0;
  double sum = 0;
};
StepWeights step_weights(const Pipeline& pipeline);

}  // namespace lowtide::parallel
