#pragma once

#include <optional>
#include <span>
#include <vector>

#include "layout/plan_buffers.h"

namespace lowtide::layout {

/// Where the section of results ends that the caller drops before the second half
/// (graph/handed_out.h); 0 without any.
Bytes end_of_results(const Graph& graph, Bytes alignment);

/// What a plan takes from an arena that is divided into sections, ranges of addresses that are
/// taken and given back each by itself. From the bottom up:
///
/// - What results that the caller drops (graph/handed_out.h) take of its memory until then. The
///   section is there for others from the time when all of them are gone, and not before.
/// - Where the program takes memory once the step is over (GraphData::after_bytes): what is alive
///   at the end, at fixed offsets in the order in which it begins. The section ends there or
///   higher, at a border that is chosen; other buffers lie there as well until the outputs come.
///   Where the outputs take more than the results did, some lie in the section of these.
/// - All else.
///
/// A wall keeps buffers from lying across a border: a buffer of one unit of alignment over all
/// time. It takes nothing from the arena: layout() leaves walls out, and what is above moves down.
class SectionedBuffers {
 public:
  /// Of a valid plan. The section of the outputs ends at `border`, a multiple of the alignment, or
  /// where the outputs end if that is higher; without, it is not divided from the rest. The graph
  /// and the plan must outlive this.
  SectionedBuffers(const Graph& graph, const Plan& plan, Bytes alignment,
                   std::optional<Bytes> border = std::nullopt);

  /// To be packed: those of the plan, in the order of plan_buffers(), then the walls.
  const std::vector<packing::Buffer>& buffers() const { return buffers_; }
  const PlanBuffers& plan_buffers() const { return needed_; }
  bool has_outputs() const { return has_outputs_; }
  Bytes end_of_outputs() const { return end_of_outputs_; }
  /// Where the section of the outputs may end, so that the program has room for what it takes
  /// after the step in an arena of so many bytes. The outputs may end higher.
  Bytes highest_border(Bytes capacity) const;
  /// By how much a packing is higher than the arena.
  Bytes wall_bytes() const { return static_cast<Bytes>(borders_.size()) * alignment_; }

  /// From an offset per buffer of the plan in an arena, or EjectionSearch::kUnplaced, to one per
  /// buffer of the packing: what may not lie where it did is unplaced.
  std::vector<Bytes> among_walls(std::vector<Bytes> offsets) const;
  /// From an offset per buffer of a packing, or per buffer of the plan in a packing, to the arena.
  std::vector<Bytes> without_walls(std::vector<Bytes> offsets) const;
  /// From an offset per buffer of a packing.
  Layout layout(const std::vector<Bytes>& offsets) const;

 private:
  void fix_results();
  void fix_outputs();
  void fix_in_place_of_results(std::vector<packing::Buffer*> outputs);
  void add_wall(Bytes border);

  const Graph& graph_;
  const Plan& plan_;
  Bytes alignment_;
  Bytes end_of_results_ = 0;
  std::int32_t results_gone_ = 0;
  Bytes outputs_begin_ = 0;  // of what is held after the step
  Bytes end_of_outputs_ = 0;
  bool has_outputs_ = false;
  PlanBuffers needed_;
  std::vector<packing::Buffer> buffers_;
  std::vector<Bytes> borders_;  // ascending
};

/// Ends of the outputs' section that a packing suggests: the lowest there is, and higher ones within
/// `highest`. Those first that least lies across, in bytes times actions. `offsets`: of the buffers
/// of the plan in an arena.
std::vector<Bytes> borders_by_promise(const SectionedBuffers& buffers,
                                      std::span<const Bytes> offsets, Bytes alignment,
                                      Bytes highest);

}  // namespace lowtide::layout
