#include "layout/sections.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <utility>

#include "graph/boundary.h"
#include "packing/ejection_search.h"
#include "plan/residents.h"

namespace lowtide::layout {

Bytes end_of_results(const Graph& graph, Bytes alignment) {
  const std::vector<bool> counted = counted_results(graph);
  Bytes end = 0;
  for (TensorId id = 0; id < graph.num_tensors(); ++id) {
    if (counted[static_cast<std::size_t>(id)]) end += align_up(graph.tensor(id).bytes, alignment);
  }
  return end;
}

Bytes bytes_after(const Graph& graph, const Plan& plan) {
  const bool are_callers = find_boundary(graph) != kNone;
  const Bytes away = are_callers ? graph.resident_bytes() - staying_bytes(graph, plan) : 0;
  return graph.after_bytes() + away;
}

namespace {

/// The sections that hold outputs when the step is over.
Bytes held_afterwards(const Graph& graph, const Plan& plan) {
  const Layout& layout = *plan.layout;
  std::vector<Bytes> ends = layout.borders;
  ends.push_back(layout.arena_bytes - staying_bytes(graph, plan));
  std::vector<bool> holds(ends.size());
  const PlanBuffers needed = buffers_of(graph, plan);
  const auto end = static_cast<std::int32_t>(plan.actions.size());
  for (std::size_t i = 0; i < needed.buffers.size(); ++i) {
    const packing::Buffer& buffer = needed.buffers[i];
    if (buffer.end < end || !packing::takes_room(buffer)) continue;
    const Placement& what = needed.first[i];
    const auto placed =
        std::ranges::find_if(layout.placements[buffer.begin], [&](const Placement& other) {
          return other.workspace == what.workspace && other.index == what.index;
        });
    holds[std::ranges::upper_bound(ends, placed->offset) - ends.begin()] = true;
  }
  Bytes held = 0, begin = 0;
  for (std::size_t i = 0; i < ends.size(); begin = ends[i++]) {
    if (holds[i]) held += ends[i] - begin;
  }
  return held;
}

}  // namespace

Bytes needed_bytes(const Graph& graph, const Plan& plan) {
  const Bytes after = bytes_after(graph, plan);
  const Bytes arena = plan.layout->arena_bytes;
  if (after == 0) return arena;
  return std::max(arena, staying_bytes(graph, plan) + held_afterwards(graph, plan) + after);
}

SectionedBuffers::SectionedBuffers(const Graph& graph, const Plan& plan, Bytes alignment,
                                   std::optional<Bytes> border)
    : graph_(graph),
      plan_(plan),
      alignment_(alignment),
      needed_(buffers_of(graph, plan)),
      buffers_(needed_.buffers) {
  fix_results();
  if (bytes_after(graph, plan) > 0) fix_outputs();
  if (border && has_outputs()) add_wall(std::max(*border, end_of_outputs_));
}

std::vector<Bytes> SectionedBuffers::among_walls(std::vector<Bytes> offsets) const {
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    Bytes& offset = offsets[i];
    if (offset == packing::EjectionSearch::kUnplaced) continue;
    const auto above = std::ranges::upper_bound(borders_, offset);
    const bool is_across = above != borders_.end() && *above < offset + buffers_[i].bytes;
    offset += (above - borders_.begin()) * alignment_;
    if (is_across || buffers_[i].fixed.value_or(offset) != offset) {
      offset = packing::EjectionSearch::kUnplaced;
    }
  }
  for (std::size_t i = offsets.size(); i < buffers_.size(); ++i) {
    offsets.push_back(*buffers_[i].fixed);
  }
  return offsets;
}

std::vector<Bytes> SectionedBuffers::without_walls(std::vector<Bytes> offsets) const {
  offsets.resize(needed_.buffers.size());
  for (Bytes& offset : offsets) {
    Bytes walls = 0;
    for (Bytes border : borders_) walls += offset > border + walls ? alignment_ : 0;
    offset -= walls;
  }
  return offsets;
}

Bytes SectionedBuffers::highest_border(Bytes capacity) const {
  const Bytes room = std::max<Bytes>(0, capacity - bytes_after(graph_, plan_));
  return outputs_begin_ + room / alignment_ * alignment_;
}

Layout SectionedBuffers::layout(const std::vector<Bytes>& offsets) const {
  Layout layout = layout_of(graph_, plan_, needed_, without_walls(offsets));
  const Bytes top = layout.arena_bytes - staying_bytes(graph_, plan_);
  std::ranges::copy_if(borders_, std::back_inserter(layout.borders),
                       [&](Bytes border) { return border < top; });
  return layout;
}

/// All results stay until the last is gone: their section is not divided further.
void SectionedBuffers::fix_results() {
  const std::vector<bool> counted = counted_results(graph_);
  std::vector<packing::Buffer*> results;
  std::int32_t end = 0;
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    const Placement& first = needed_.first[i];
    if (first.workspace || !counted[static_cast<std::size_t>(first.index)]) continue;
    results.push_back(&buffers_[i]);
    end = std::max(end, buffers_[i].end);
  }
  for (packing::Buffer* result : results) {
    result->begin = 0;
    result->end = end;
    result->fixed = end_of_results_;
    end_of_results_ += align_up(result->bytes, alignment_);
  }
  results_gone_ = end;
  end_of_outputs_ = end_of_results_;
  if (end_of_results_ > 0) add_wall(end_of_results_);
}

void SectionedBuffers::fix_outputs() {
  const auto end = static_cast<std::int32_t>(plan_.actions.size());
  std::vector<packing::Buffer*> outputs;
  Bytes bytes = 0;
  for (packing::Buffer& buffer : std::span(buffers_).first(needed_.buffers.size())) {
    if (buffer.end < end || !packing::takes_room(buffer)) continue;
    outputs.push_back(&buffer);
    bytes += align_up(buffer.bytes, alignment_);
  }
  has_outputs_ = !outputs.empty();
  outputs_begin_ = bytes < end_of_results_ ? end_of_results_ : 0;
  fix_in_place_of_results(outputs);
  for (packing::Buffer* output : outputs) {
    if (output->fixed) continue;
    output->fixed = end_of_outputs_ + wall_bytes();
    end_of_outputs_ += align_up(output->bytes, alignment_);
  }
}

/// The largest outputs first, since the rest of the section is lost.
void SectionedBuffers::fix_in_place_of_results(std::vector<packing::Buffer*> outputs) {
  std::ranges::stable_sort(outputs, std::ranges::greater(), &packing::Buffer::bytes);
  Bytes top = outputs_begin_;
  for (packing::Buffer* output : outputs) {
    const Bytes size = align_up(output->bytes, alignment_);
    if (output->begin < results_gone_ || top + size > end_of_results_) continue;
    output->fixed = std::exchange(top, top + size);
  }
}

void SectionedBuffers::add_wall(Bytes border) {
  packing::Buffer wall{0, static_cast<std::int32_t>(plan_.actions.size()), alignment_};
  wall.fixed = border + wall_bytes();
  buffers_.push_back(wall);
  borders_.push_back(border);
}

std::vector<Bytes> borders_by_promise(const SectionedBuffers& buffers,
                                      std::span<const Bytes> offsets, Bytes alignment,
                                      Bytes highest) {
  const std::vector<packing::Buffer>& all = buffers.plan_buffers().buffers;
  const Bytes lowest = buffers.end_of_outputs();
  highest = std::max(lowest, highest);
  std::map<Bytes, double> changes{{lowest, 0}, {highest, 0}};  // in area across, by address
  for (std::size_t i = 0; i < all.size(); ++i) {
    const double area = static_cast<double>(all[i].bytes) * (all[i].end - all[i].begin);
    changes[offsets[i] + alignment] += area;
    changes[align_up(offsets[i] + all[i].bytes, alignment)] -= area;
    changes.try_emplace(offsets[i]);
  }
  std::vector<std::pair<double, Bytes>> rated;
  double across = 0;
  for (const auto& [border, change] : changes) {
    across += change;
    if (lowest <= border && border <= highest) rated.emplace_back(std::max(0.0, across), border);
  }
  // Among borders that no buffer crosses, the highest first: above the arena it is no border.
  std::ranges::sort(rated, {}, [](const auto& one) { return std::pair(one.first, -one.second); });
  std::vector<Bytes> borders;
  for (const auto& [area, border] : rated) borders.push_back(border);
  return borders;
}

}  // namespace lowtide::layout
