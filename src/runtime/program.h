#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <span>
#include <vector>

#include "device/device.h"
#include "device/planned_source.h"
#include "runtime/block_map.h"
#include "runtime/kernel.h"
#include "runtime/sections.h"

namespace lowtide::runtime {

/// A plan resolved to addresses: a step is then a loop over `runs`.
///
/// Each execution has its own entries in `values` for its outputs, so an input is a constant
/// pointer. Addresses are the same in every step, so tensors over them stay valid: the first step
/// fills `values`, and later steps run no view op.
struct Program {
  /// The destination of a result.
  struct Output {
    TensorId tensor;
    at::Tensor* value;
    Bytes offset;            ///< of its storage in the block; unused if outside
    std::byte* data;         ///< the address of its storage; null for a view and outside
    const at::Tensor* base;  ///< of a view: the tensor whose storage it shares; else null
    bool allocated;          ///< the op allocates it, as profiled; else it is copied to its address
    bool outside;            ///< in the caller's memory, whose address may change in each step
    bool overwriting;        ///< written over an input: its layout must be that of the graph
  };
  /// A copy to or from slower memory, or a wait for one, before a run.
  struct Move {
    std::size_t before;  ///< index into `runs`
    std::int32_t action;
    Verb verb;
    TensorId storage;
    Bytes bytes;
    Bytes offset;               ///< of the storage in the block
    Bytes slower_offset;        ///< of its copy
    std::byte* data;            ///< the storage's address
    at::Tensor* value;          ///< over the storage
    const at::Tensor* earlier;  ///< of a prefetch: the value that was offloaded; null: a resident
  };
  enum class Draw : std::uint8_t {
    freely,
    first,  ///< save the generator's state first
    again   ///< draw from the saved state, then restore the present one
  };
  struct Run {
    std::int32_t action;
    OpId op;
    const Kernel* kernel;
    std::span<const at::Tensor* const> inputs;
    std::span<const device::Slot> slots;
    std::span<const Output> outputs;
    std::byte* generator_state;
    Draw draw;
    bool withhold_mutated;
    bool view;     ///< makes only views
    bool outside;  ///< some of its outputs are in the caller's memory
  };

  /// A result of the first half that the caller may hold: values over one storage.
  struct Result {
    TensorId storage;
    bool dropped;  ///< the caller is expected to drop it, and no op after the boundary reads it
    std::vector<at::Tensor*> values;
  };

  std::vector<Run> runs;
  std::vector<Move> moves;   ///< in order
  std::size_t boundary = 0;  ///< number of runs before the graph's boundary, if any
  std::size_t moves_before_boundary = 0;
  std::vector<at::Tensor> values;   ///< residents by tensor id, then results
  std::vector<Bytes> memory;        ///< bytes of live tensors after each action
  std::vector<at::Tensor*> ends;    ///< by tensor: its value after the last action, or null
  std::vector<at::Tensor*> handed;  ///< by tensor: its value at the boundary, or null
  std::vector<Result> results;
  /// By storage: the entry for the caller's tensor; null for a storage in the block.
  std::vector<at::Tensor*> outside;
  /// By storage: the tensor of the block to which the caller's is copied; null without one.
  std::vector<at::Tensor*> placed;

  std::vector<std::unique_ptr<const Kernel>> kernels;  ///< by op
  std::vector<const at::Tensor*> inputs;
  std::vector<device::Slot> slots;
  std::vector<Output> outputs;
  std::vector<std::byte> host_states;  ///< of the generator, where the block cannot hold them

  /// Resolves addresses again after sections of the block moved; `values` over them are undefined
  /// until they are made again. Not for a block with residents.
  void move(const BlockMap& map, const SectionAddresses& from, const SectionAddresses& to);
};

/// One kernel per op that the plan runs, on `device`. Throws InputError for an op that cannot run,
/// or not as often as the plan runs it.
std::vector<std::unique_ptr<const Kernel>> bind_kernels(const Graph& graph, const Plan& plan,
                                                        c10::Device device);

/// Resolves a verified plan with a layout to addresses in a block. Residents
/// without a place in `map` and outputs of a boundary are outside: the caller assigns their tensors
/// to the entries in `outside`. Foreign results (is_foreign()) and counted results
/// (counted_results()) are outside too, new in each step, unless `map` has places for them. Throws
/// InputError for an op that was not profiled, and for a plan that uses the results' section before
/// they are gone, or the results afterwards.
std::unique_ptr<Program> compile(const Graph& graph, const Plan& plan, const BlockMap& map,
                                 const SectionAddresses& block, c10::Device device);

}  // namespace lowtide::runtime
