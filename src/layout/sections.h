#pragma once

#include <optional>
#include <span>
#include <vector>

#include "layout/plan_buffers.h"

namespace lowtide::layout {

/// The end of the section of results that the caller drops before the second half
/// (graph/handed_out.h); 0 without such results.
Bytes end_of_results(const Graph& graph, Bytes alignment);

/// What the program needs after the step: GraphData::after_bytes, and the residents that the plan
/// moves where they are the caller's, who then takes them back (graph/boundary.h).
Bytes bytes_after(const Graph& graph, const Plan& plan);

/// What a program needs that runs a plan with a layout, residents included: its arena or, if that
/// is more, what is held when the step is over, sections without outputs released, and
/// bytes_after(). The borders of a plan that was made for a larger budget may leave too little.
Bytes needed_bytes(const Graph& graph, const Plan& plan);

/// The buffers of a plan in an arena with sections: ranges of addresses that are allocated and
/// released separately. From the bottom up:
///
/// - The results that the caller drops (graph/handed_out.h), in the caller's memory until then.
///   Other buffers may use the section only after all results are gone.
/// - If the program needs memory after the step (bytes_after): the buffers alive at the
///   end, at fixed offsets in order of their begins. The section ends there or at a chosen higher
///   border; other buffers use it before the outputs. If the outputs need more bytes than the
///   results, some of them lie in the results' section.
/// - All other buffers.
///
/// A wall, a buffer of one unit of alignment over all time, keeps buffers from crossing a border.
/// Walls need no bytes of the arena: layout() removes them and moves the buffers above down.
class SectionedBuffers {
 public:
  /// For a valid plan. The section of the outputs ends at `border`, a multiple of the alignment, or
  /// at the end of the outputs if that is higher; without `border` it has no wall. The graph and
  /// the plan must outlive this.
  SectionedBuffers(const Graph& graph, const Plan& plan, Bytes alignment,
                   std::optional<Bytes> border = std::nullopt);

  /// The buffers to pack: those of the plan, in the order of plan_buffers(), then the walls.
  const std::vector<packing::Buffer>& buffers() const { return buffers_; }
  const PlanBuffers& plan_buffers() const { return needed_; }
  bool has_outputs() const { return has_outputs_; }
  Bytes end_of_outputs() const { return end_of_outputs_; }
  /// The highest end of the outputs' section that leaves bytes_after() free in an arena of
  /// `capacity` bytes. The outputs themselves may end higher.
  Bytes highest_border(Bytes capacity) const;
  /// The height of all walls: packing height minus arena height.
  Bytes wall_bytes() const { return static_cast<Bytes>(borders_.size()) * alignment_; }

  /// Converts offsets in an arena, per buffer of the plan or EjectionSearch::kUnplaced, to offsets
  /// per buffer of the packing. Buffers whose offset is not allowed become unplaced.
  std::vector<Bytes> among_walls(std::vector<Bytes> offsets) const;
  /// Converts offsets in a packing, per buffer of the packing or of the plan, to the arena.
  std::vector<Bytes> without_walls(std::vector<Bytes> offsets) const;
  /// The layout for one offset per buffer of the packing.
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
  Bytes outputs_begin_ = 0;  // start of the buffers alive after the step
  Bytes end_of_outputs_ = 0;
  bool has_outputs_ = false;
  PlanBuffers needed_;
  std::vector<packing::Buffer> buffers_;
  std::vector<Bytes> borders_;  // ascending
};

/// Candidate ends of the outputs' section: the lowest possible end, and higher ones up to
/// `highest`. Sorted by the buffers that cross them, in bytes times actions. `offsets`: per buffer
/// of the plan, in an arena.
std::vector<Bytes> borders_by_promise(const SectionedBuffers& buffers,
                                      std::span<const Bytes> offsets, Bytes alignment,
                                      Bytes highest);

}  // namespace lowtide::layout
