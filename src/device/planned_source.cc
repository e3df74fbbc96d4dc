#include "device/planned_source.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace lowtide::device {

void PlannedSource::begin(std::span<const Slot> slots) {
  slots_ = slots;
  next_ = 0;
  strayed_ = false;
  overrun_ = 0;
  beyond_bytes_ = 0;
}

void PlannedSource::reset() {
  begin({});
  requests_ = 0;
  highest_ = 0;
}

MemorySource::Grant PlannedSource::allocate(std::size_t bytes) {
  ++requests_;
  const auto wanted = static_cast<Bytes>(bytes);
  const Slot slot = next_ < slots_.size() ? slots_[next_] : Slot{};
  ++next_;
  if (slot.beyond && beyond_ != nullptr) return beyond_->allocate(bytes);
  if (slot.scratch && wanted != slot.bytes) stray();
  if (strayed_ || wanted > slot.bytes) return overrun(wanted, slot.bytes);
  highest_ = std::max(highest_, slot.offset + wanted);
  return {slot.data, &keep};
}

MemorySource::Grant PlannedSource::overrun(Bytes bytes, Bytes planned) {
  const Bytes taken = align_up(overrun_, alignment_);
  if (taken + bytes > reserve_.bytes && beyond_ != nullptr) {
    beyond_bytes_ += bytes;
    return beyond_->allocate(static_cast<std::size_t>(bytes));
  }
  if (taken + bytes > reserve_.bytes) {
    const std::string asked = fmt::format(
        "asks for {} bytes in request {}, where its profile has {}", bytes, next_, planned);
    throw Error(reserve_.bytes == 0
                    ? asked + "; profile again, or set a reserve to go on"
                    : fmt::format("{}, and {} of the reserve of {} are taken; set a larger one",
                                  asked, taken, reserve_.bytes));
  }
  overrun_ = taken + bytes;
  highest_ = std::max(highest_, reserve_.offset + overrun_);
  return {reserve_.data + taken, &keep};
}

}  // namespace lowtide::device
