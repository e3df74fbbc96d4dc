#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "train/options.h"

namespace lowtide::train {

/// A training run after a whole step, apart from its tensors.
struct RunState {
  TrainOptions options;   ///< the part that checkpoints record
  std::string data;       ///< Batches::identity()
  std::int64_t step = 0;  ///< steps done
};

/// A resident of the training step that a checkpoint holds. Not all need be in memory at once.
struct NamedTensor {
  std::string name;
  DType dtype;
  Shape shape;
  std::function<at::Tensor()> get;                                         ///< contiguous
  std::function<void(const std::function<void(const at::Tensor&)>&)> set;  ///< by what fills it
};

/// One that is in memory.
NamedTensor in_memory(std::string name, DType dtype, const at::Tensor& tensor);

/// Residents that are the state of a run: parameters, buffers, optimizer state.
bool is_state(const Tensor& tensor);

/// Writes a safetensors file: the tensors, each asked for twice, the state of the framework's
/// random generator, and the run's options in the metadata, with a hash over everything. Writes a
/// temporary file and renames it, so the last checkpoint survives any failure. Throws Error when
/// the disk is full.
void save_checkpoint(const std::filesystem::path& path, const RunState& state,
                     const std::vector<NamedTensor>& tensors);

/// The options and the step of a checkpoint, without its tensors. Throws InputError when the file
/// is cut short or is no checkpoint of Lowtide.
RunState read_run_state(const std::filesystem::path& path);

/// Fills `tensors` and sets the framework's generator. Throws InputError that names the difference
/// when the checkpoint holds other tensors, or when its content is damaged; the tensors are then
/// undefined.
void load_checkpoint(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors);
/// Fills `tensors` alone from a checkpoint that may hold others too, such as optimizer state.
void load_weights(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors);

/// Gets and sets the state of the framework's default generator.
at::Tensor generator_state();
void set_generator_state(const at::Tensor& state);

}  // namespace lowtide::train
