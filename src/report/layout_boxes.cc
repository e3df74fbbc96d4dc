#include "report/layout_boxes.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include "graph/residents.h"
#include "plan/residents.h"

namespace lowtide::report {
namespace {

Content content_of(const ResidentBytes& resident) {
  if (resident.what == "parameters") return Content::parameters;
  return resident.what == "optimizer state" ? Content::optimizer_state : Content::other_residents;
}

/// One box for each kind of those that stay in memory.
std::vector<Box> resident_boxes(const Graph& graph, const Plan& plan) {
  const auto end = static_cast<std::int32_t>(plan.actions.size());
  std::vector<Box> boxes;
  Bytes offset = 0;
  for (const ResidentBytes& resident : residents_by_kind(graph, residents_away(graph, plan))) {
    boxes.push_back(
        {0, end, offset, resident.bytes, content_of(resident), std::string(resident.what)});
    offset += resident.bytes;
  }
  return boxes;
}

/// Names values and workspaces by the actions that begin them, in the order of the actions.
class Namer {
 public:
  Namer(const Graph& graph, const Plan& plan) : graph_(graph), plan_(plan), ran_(graph.num_ops()) {}

  void describe(const Placement& placement, Box& box) {
    go_to(box.begin);
    const Action& action = plan_.actions[box.begin];
    if (placement.workspace) {
      box.name = "workspace of " + graph_.op(placement.index).name;
      box.content = Content::workspaces;
      return;
    }
    box.name = graph_.tensor(placement.index).name;
    box.content =
        action.verb == Verb::run ? made_by(action.index, placement.index) : Content::brought_back;
  }

 private:
  void go_to(std::int32_t action) {
    for (; now_ < action; ++now_) {
      const Action& done = plan_.actions[now_];
      if (done.verb == Verb::run) ran_[done.index] = true;
    }
  }

  /// A parameter's gradient may be a view of what an op makes, such as its transpose.
  bool holds_gradient(TensorId storage) const {
    const auto is_gradient = [&](TensorId id) { return graph_.tensor(id).role == Role::gradient; };
    return is_gradient(storage) || std::ranges::any_of(graph_.views(storage), is_gradient);
  }

  Content made_by(OpId op, TensorId tensor) const {
    if (holds_gradient(tensor)) return Content::gradients;
    if (ran_[op]) return Content::recomputed;
    switch (graph_.op(op).phase) {
      case Phase::forward: return Content::activations;
      case Phase::backward: return Content::backward;
      case Phase::optimizer: break;
    }
    return Content::update;
  }

  const Graph& graph_;
  const Plan& plan_;
  std::vector<bool> ran_;  // before the action `now_`
  std::int32_t now_ = 0;
};

Content content_of_life(std::int64_t length, std::int64_t whole) {
  if (16 * length <= whole) return Content::short_lived;
  return 4 * length <= whole ? Content::medium_lived : Content::long_lived;
}

}  // namespace

std::vector<Box> boxes_of(const Graph& graph, const Plan& plan, const layout::PlanBuffers& needed,
                          const packing::Packing& packing) {
  const Bytes residents = staying_bytes(graph, plan);
  std::vector<Box> boxes = resident_boxes(graph, plan);
  Namer namer(graph, plan);
  for (std::size_t i = 0; i < needed.buffers.size(); ++i) {
    const packing::Buffer& buffer = needed.buffers[i];
    Box box{.begin = buffer.begin,
            .end = buffer.end,
            .offset = residents + packing.offsets[i],
            .bytes = buffer.bytes};
    namer.describe(needed.first[i], box);
    boxes.push_back(std::move(box));
  }
  return boxes;
}

std::vector<Box> boxes_of(std::span<const std::string> names,
                          const std::vector<packing::Buffer>& buffers,
                          const packing::Packing& packing) {
  std::int64_t first = std::numeric_limits<std::int32_t>::max(), last = -first;
  for (const packing::Buffer& buffer : buffers) {
    first = std::min<std::int64_t>(first, buffer.begin);
    last = std::max<std::int64_t>(last, buffer.end);
  }
  std::vector<Box> boxes;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const packing::Buffer& buffer = buffers[i];
    const std::int64_t length = std::int64_t{buffer.end} - buffer.begin;
    boxes.push_back({buffer.begin, buffer.end, packing.offsets[i], buffer.bytes,
                     content_of_life(length, last - first), names[i]});
  }
  return boxes;
}

}  // namespace lowtide::report
