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

/// A plan resolved to addresses: what is left to do in a step is a loop over `runs`.
///
/// Each execution has its own place in `values` for each output, so an input is a pointer fixed at
/// compile time. As addresses are the same in every step, a tensor over them stays valid: the
/// first step fills `values`, later ones need no view op at all.
struct Program {
  /// Where a result belongs.
  struct Output {
    TensorId tensor;
    at::Tensor* value;
    Bytes offset;            ///< of its storage in the block; means nothing outside
    std::byte* data;         ///< the address of its storage; null for a view and outside
    const at::Tensor* base;  ///< of a view: the tensor whose storage it shares; else null
    bool allocated;      ///< the profile saw the op allocate it; else it is copied to its address
    bool outside;        ///< in the caller's memory, which may be elsewhere in each step
    bool overwriting;    ///< written over an input: its elements must lie as the graph says
  };
  enum class Draw : std::uint8_t {
    freely,
    first,  ///< save the generator's state before
    again   ///< draw from the saved state, then put the present one back
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
    bool view;     ///< makes nothing but views
    bool outside;  ///< some of its outputs are in the caller's memory
  };

  /// What the first half hands over and the caller may hold: values over one storage.
  struct Result {
    TensorId storage;
    bool dropped;  ///< the caller is expected to drop it, and nothing reads it behind the boundary
    std::vector<at::Tensor*> values;
  };

  std::vector<Run> runs;
  std::size_t boundary = 0;            ///< how many runs lie before the graph's boundary, if any
  std::vector<at::Tensor> values;      ///< residents by tensor id, then results
  std::vector<Bytes> memory;           ///< bytes of live tensors after each action
  std::vector<at::Tensor*> ends;       ///< by tensor: its value after the last action, or null
  std::vector<at::Tensor*> handed;     ///< by tensor: its value at the boundary, or null
  std::vector<Result> results;
  /// By storage: where the caller's tensor goes; null for what lies in the block.
  std::vector<at::Tensor*> outside;

  std::vector<std::unique_ptr<const Kernel>> kernels;  ///< by op
  std::vector<const at::Tensor*> inputs;
  std::vector<device::Slot> slots;
  std::vector<Output> outputs;

  /// Sections of the block lie elsewhere now: addresses in these are resolved anew, and `values`
  /// over them are undefined until they are made again. Not for a block with residents.
  void move(const BlockMap& map, const SectionAddresses& from, const SectionAddresses& to);
};

/// One kernel per op that the plan runs. Throws InputError for an op that cannot run, or not as
/// often as the plan wants.
std::vector<std::unique_ptr<const Kernel>> bind_kernels(const Graph& graph, const Plan& plan);

/// Resolves a verified plan of runs and frees with a layout to addresses in a block.
/// Residents without a place in `map` and what a boundary makes are outside, and whoever runs the
/// program puts their tensors where `outside` says; results of ops that are foreign (is_foreign())
/// or counted (counted_results()) are outside too, anew in each step. Throws InputError for an op
/// that was not profiled, and for a plan that needs the place of results before they are gone, or
/// these afterwards.
std::unique_ptr<Program> compile(const Graph& graph, const Plan& plan, const BlockMap& map,
                                 const SectionAddresses& block, c10::Device device);

}  // namespace lowtide::runtime
