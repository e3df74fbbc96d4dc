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

/// The same of the first chunk of the first rank alone, at most. Of the last chunk of the last rank
/// it is 1 with interleaved.
std::int64_t most_of_first_unit(const Pipeline& pipeline);

/// What a step's time is made of, with F, B as the times of one micro-batch's passes on a rank, all
/// its chunks together: slowest x max (F + B) + sum x (F + B of all ranks added up). With equal
/// ranks that is micro-batches x (F + B) x (1 + bubble), where the bubble is
/// (stages - 1) / (micro-batches x chunks), and the makespan of the pipeline. With unequal ranks:
///
/// - GPipe: the makespan. The slowest forward and backward pass may be on two ranks (`apart`).
/// - 1F1B: as if the slowest rank never waited once its first micro-batch arrived (Zheng et al.,
///   Alpa, OSDI 2022). Mostly more than the makespan; less for one in 400 random pipelines, by up
///   to 9% where one rank is ten times slower than another.
/// - interleaved: all ranks as slow as the slowest pass of any; never less than the makespan.
struct StepWeights {
  double slowest = 0;
  double sum = 0;
  bool apart = false;  ///< max F + max B instead of max (F + B)
};
StepWeights step_weights(const Pipeline& pipeline);

}  // namespace lowtide::parallel
