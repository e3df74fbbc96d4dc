#include "layout/repair.h"

#include <utility>

#include "packing/ejection_search.h"
#include "packing/instance.h"

namespace lowtide::layout {

Repair repaired(const SectionedBuffers& buffers, std::vector<Bytes> offsets,
                const packing::PackingGoal& goal, const Control& control) {
  offsets = buffers.among_walls(std::move(offsets));
  const packing::Instance instance =
      packing::instance_of(packing::rounded(buffers.buffers(), goal.alignment));
  const Bytes capacity = *goal.capacity / goal.alignment * goal.alignment + buffers.wall_bytes();
  Repair repair;
  if (packing::lower_bound(instance) > capacity) return repair;
  if (!instance.items.empty()) {
    packing::EjectionSearch search(instance, packing::of_items(instance, offsets));
    const bool fits = search.pack_within(capacity, goal.work, control);
    repair.work = search.work();
    control.count(packing::kPackingNanoseconds * static_cast<double>(repair.work));
    if (!fits) return repair;
    packing::set_of_buffers(instance, search.offsets(), offsets);
  }
  repair.layout = buffers.layout(offsets);
  return repair;
}

}  // namespace lowtide::layout
