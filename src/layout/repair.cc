#include "layout/repair.h"

#include <utility>

#include "packing/ejection_search.h"
#include "packing/instance.h"

namespace lowtide {

Repair repaired(const SectionedBuffers& buffers, std::vector<Bytes> offsets,
                const PackingGoal& goal, const Control& control) {
  offsets = buffers.among_walls(std::move(offsets));
  const Instance instance = instance_of(rounded(buffers.buffers(), goal.alignment));
  const Bytes capacity = *goal.capacity / goal.alignment * goal.alignment + buffers.wall_bytes();
  Repair repair;
  if (lower_bound(instance) > capacity) return repair;
  if (!instance.items.empty()) {
    EjectionSearch search(instance, of_items(instance, offsets));
    const bool fits = search.pack_within(capacity, goal.work, control);
    repair.work = search.work();
    control.count(kPackingNanoseconds * static_cast<double>(repair.work));
    if (!fits) return repair;
    set_of_buffers(instance, search.offsets(), offsets);
  }
  repair.layout = buffers.layout(offsets);
  return repair;
}

}  // namespace lowtide
