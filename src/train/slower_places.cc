#include "train/slower_places.h"

#include <fmt/format.h>

#include "plan/places.h"
#include "runtime/open_places.h"
#include "slower/disk.h"
#include "slower/host_memory.h"
#include "train/known_speeds.h"

namespace lowtide::train {
namespace {

Lanes lanes_now(const slower::Place& place, const Control& control) {
  const auto known = known_speed(place);
  const Lanes lanes = offload::lanes_of(known ? *known : measure_and_keep(place));
  control.report(fmt::format("note: {}: {}", place.name(), offload::describe(lanes)));
  return lanes;
}

/// As fast as the user says, or as it is.
Lanes host_lanes(const MemoryOptions& memory, const Control& control) {
  if (memory.host_speed) return offload::lanes_of(*memory.host_speed);
  return lanes_now(slower::HostMemory(), control);
}

/// A limit of its own, or most of what is free.
Bytes disk_bytes(const slower::Disk& disk, const MemoryOptions& memory) {
  constexpr double kUsableShare = 0.9;
  const auto usable = static_cast<Bytes>(kUsableShare * static_cast<double>(disk.free_bytes()));
  return memory.disk_bytes.value_or(usable);
}

}  // namespace

offload::Slower all_moves(const MemoryOptions& memory) {
  constexpr Bytes kBuffers = slower::Disk::kReservedBytes;
  if (!memory.host_bytes) return {.lanes = {}, .residents = true, .buffers = kBuffers};
  offload::Slower slower{.lanes = {}, .bytes = memory.host_bytes, .residents = true};
  if (!memory.disk.empty()) slower.second = {.lanes = {}, .bytes = {}, .buffers = kBuffers};
  return slower;
}

offload::Slower slower_of(const MemoryOptions& memory, const Control& control) {
  offload::Slower slower = all_moves(memory);
  if (memory.host_bytes) slower.lanes = host_lanes(memory, control);
  if (memory.disk.empty()) return slower;
  const slower::Disk disk(memory.disk);
  const Lanes lanes = lanes_now(disk, control);
  const Bytes bytes = disk_bytes(disk, memory);
  if (slower.second) {
    slower.second->lanes = lanes;
    slower.second->bytes = bytes;
  } else {
    slower.lanes = lanes;
    slower.bytes = bytes;
  }
  return slower;
}

void measure_places_again(const MemoryOptions& memory) {
  if (memory.host_bytes && !memory.host_speed) measure_and_keep(slower::HostMemory());
  if (!memory.disk.empty()) measure_and_keep(slower::Disk(memory.disk));
}

SlowerStores::SlowerStores(const Plan& plan, const MemoryOptions& memory) {
  if (!plan.slower) return;
  const PlaceBytes bytes = bytes_of_places(*plan.slower);
  const bool has_two = plan.slower->second.has_value();
  const bool is_host = memory.host_bytes && (!has_two || bytes.first > 0);
  if (is_host) host_ = std::make_unique<slower::HostMemory>(memory.host_speed);
  if (!is_host || bytes.second > 0) disk_ = std::make_unique<slower::Disk>(memory.disk);
  const auto& first = is_host || has_two ? host_ : disk_;
  store_ = runtime::open_places(*plan.slower, first.get(), has_two ? disk_.get() : nullptr);
}

Bytes SlowerStores::buffer_bytes() const { return disk_ == nullptr ? 0 : disk_->buffer_bytes(); }

}  // namespace lowtide::train
