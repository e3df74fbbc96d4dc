#include "packing/fixed.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <iterator>
#include <map>
#include <string>

#include "base/error.h"

namespace lowtide::packing {
namespace {

void require_power_of_two(Bytes alignment, const std::string& whose) {
  if (alignment > 0 && std::has_single_bit(static_cast<std::uint64_t>(alignment))) return;
  throw InputError(fmt::format("{}alignment {} is no power of two.", whose, alignment));
}

void require_alone(const Buffer& buffer, std::size_t i, Bytes alignment) {
  require_power_of_two(buffer.alignment, fmt::format("buffer {}: the ", i));
  if (!buffer.fixed) return;
  const Bytes needed = std::max(buffer.alignment, alignment);
  if (*buffer.fixed < 0 || *buffer.fixed % needed != 0) {
    throw InputError(fmt::format(
        "buffer {}: the fixed offset {} is not a multiple of its alignment {}; fix another or "
        "none.",
        i, *buffer.fixed, needed));
  }
}

/// The fixed buffers that are alive at the current time.
class Alive {
 public:
  Alive(const std::vector<Buffer>& buffers, Bytes alignment)
      : buffers_(buffers), alignment_(alignment) {}

  void begin(std::int32_t i) {
    const auto [at, alone] = by_offset_.emplace(*buffers_[i].fixed, i);
    if (!alone) fail(at->second, i);
    if (at != by_offset_.begin()) require_apart(std::prev(at)->second, i);
    if (std::next(at) != by_offset_.end()) require_apart(i, std::next(at)->second);
  }
  void end(std::int32_t i) { by_offset_.erase(*buffers_[i].fixed); }

 private:
  void require_apart(std::int32_t below, std::int32_t above) const {
    const Bytes top = *buffers_[below].fixed + align_up(buffers_[below].bytes, alignment_);
    if (top > *buffers_[above].fixed) fail(below, above);
  }

  [[noreturn]] void fail(std::int32_t a, std::int32_t b) const {
    throw InputError(fmt::format(
        "buffers {} and {} are alive together and overlap at their fixed offsets {} and {}; fix "
        "only one of them.",
        std::min(a, b), std::max(a, b), *buffers_[std::min(a, b)].fixed,
        *buffers_[std::max(a, b)].fixed));
  }

  const std::vector<Buffer>& buffers_;
  Bytes alignment_;
  std::map<Bytes, std::int32_t> by_offset_;
};

}  // namespace

void require_consistent(const std::vector<Buffer>& buffers, Bytes alignment) {
  require_power_of_two(alignment, "the ");
  std::vector<std::int32_t> by_begin;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    require_alone(buffers[i], i, alignment);
    if (buffers[i].fixed && takes_room(buffers[i])) {
      by_begin.push_back(static_cast<std::int32_t>(i));
    }
  }
  std::vector<std::int32_t> by_end = by_begin;
  std::ranges::stable_sort(by_begin, {}, [&](std::int32_t i) { return buffers[i].begin; });
  std::ranges::stable_sort(by_end, {}, [&](std::int32_t i) { return buffers[i].end; });
  Alive alive(buffers, alignment);
  auto ending = by_end.begin();
  for (std::int32_t i : by_begin) {
    for (; buffers[*ending].end <= buffers[i].begin; ++ending) alive.end(*ending);
    alive.begin(i);
  }
}

}  // namespace lowtide::packing
