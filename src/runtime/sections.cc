#include "runtime/sections.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace lowtide::runtime {
namespace {

bool lies_in(const void* address, const std::byte* data, Bytes bytes) {
  return data != nullptr && address >= data && address < data + bytes;
}

}  // namespace

std::byte* SectionAddresses::at(Bytes offset) const {
  const auto above = std::ranges::upper_bound(sections_, offset, {}, &Section::begin);
  const Section& section = *std::prev(above);
  return section.data == nullptr ? nullptr : section.data + (offset - section.begin);
}

bool SectionAddresses::contain(const void* address) const {
  return std::ranges::any_of(sections_, [&](const Section& section) {
    return lies_in(address, section.data, section.end - section.begin);
  });
}

Sections::Sections(const BlockMap& map, const device::ComputeDevice& device) : device_(device) {
  const auto add = [&](Bytes begin, Bytes end) {
    const bool late = map.late_begin < map.late_end && begin == map.late_begin;
    sections_.push_back({begin, end, late});
  };
  Bytes begin = 0;
  for (Bytes cut : map.cuts) add(std::exchange(begin, cut), cut);
  add(begin, map.end);
}

void Sections::take() { take(false); }
void Sections::take_late() { take(true); }

void Sections::take(bool late) {
  for (Section& section : sections_) {
    if (section.memory == nullptr && section.late == late) {
      section.memory = device_.allocate_scratch(section.end - section.begin);
    }
  }
}

void Sections::give_back() {
  for (Section& section : sections_) section.memory.reset();
}

void Sections::give_back_late() {
  for (Section& section : sections_) {
    if (section.late) section.memory.reset();
  }
}

void Sections::give_back_unused() {
  for (Section& section : sections_) {
    if (section.memory.use_count() == 1) section.memory.reset();
  }
}

void Sections::give_back_before(Bytes offset) {
  for (Section& section : sections_) {
    if (section.end <= offset) section.memory.reset();
  }
}

bool Sections::in_use() const {
  return std::ranges::any_of(sections_,
                             [](const Section& section) { return section.memory.use_count() > 1; });
}

Bytes Sections::held_bytes() const {
  Bytes bytes = 0;
  for (const Section& section : sections_) {
    if (section.memory != nullptr) bytes += section.end - section.begin;
  }
  return bytes;
}

SectionAddresses Sections::addresses() const {
  std::vector<SectionAddresses::Section> result;
  for (const Section& section : sections_) {
    result.push_back({section.begin, section.end, section.memory.get()});
  }
  return SectionAddresses(std::move(result));
}

std::shared_ptr<std::byte> Sections::owner_of(const void* address) const {
  for (const Section& section : sections_) {
    if (lies_in(address, section.memory.get(), section.end - section.begin)) return section.memory;
  }
  return nullptr;
}

}  // namespace lowtide::runtime
