#include "simulated/hardware/memory.h"

#include <c10/util/Exception.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace lowtide::simulated {
namespace {

using c10::CachingAllocator::StatArray;

[[noreturn]] void refused_by_system(Bytes bytes) {
  throw Error(
      fmt::format("the system refuses {} for the simulated device: {}; install a smaller one",
                  format_bytes(bytes), std::strerror(errno)));
}

std::size_t index_of(c10::CachingAllocator::StatType type) {
  return static_cast<std::size_t>(type);
}

c10::CachingAllocator::Stat& all_pools(StatArray& stats) {
  return stats[index_of(c10::CachingAllocator::StatType::AGGREGATE)];
}

std::vector<StatArray*> arrays_of(c10::CachingDeviceAllocator::DeviceStats& stats) {
  return {&stats.allocation,     &stats.active,       &stats.allocated_bytes,
          &stats.reserved_bytes, &stats.active_bytes, &stats.requested_bytes};
}

}  // namespace

TwoMappings::TwoMappings(Bytes bytes)
    : bytes_(align_up(bytes, sysconf(_SC_PAGESIZE))),
      file_(memfd_create("lowtide-simulated", MFD_CLOEXEC)) {
  if (file_ < 0 || ftruncate(file_, bytes_) != 0) refused_by_system(bytes_);
  device_ = map(PROT_NONE);
  host_ = map(PROT_READ | PROT_WRITE);
}

TwoMappings::~TwoMappings() {
  munmap(device_, static_cast<std::size_t>(bytes_));
  munmap(host_, static_cast<std::size_t>(bytes_));
  close(file_);
}

std::byte* TwoMappings::map(int protection) const {
  void* const data = mmap(nullptr, static_cast<std::size_t>(bytes_), protection,
                          MAP_SHARED | MAP_NORESERVE, file_, 0);
  if (data == MAP_FAILED) refused_by_system(bytes_);
  return static_cast<std::byte*>(data);
}

void TwoMappings::discard_from(Bytes offset) const {
  const Bytes first = align_up(offset, sysconf(_SC_PAGESIZE));
  if (first >= bytes_) return;
  fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, first, bytes_ - first);
}

Memory::Memory(Bytes bytes, Streams& streams) : mappings_(bytes), streams_(streams) {
  holes_.give(holes_.take(mappings_.bytes(), packing::Fit::best), mappings_.bytes());
}

bool Memory::on_device(const void* address) const {
  return address >= mappings_.device() && address < mappings_.device() + bytes();
}

bool Memory::on_host(const void* address) const {
  return address >= mappings_.host() && address < mappings_.host() + bytes();
}

std::byte* Memory::to_host(const void* device) const {
  if (device == nullptr) return nullptr;
  return mappings_.host() + (static_cast<const std::byte*>(device) - mappings_.device());
}

std::byte* Memory::to_device(const void* host) const {
  if (host == nullptr) return nullptr;
  return mappings_.device() + (static_cast<const std::byte*>(host) - mappings_.host());
}

Bytes Memory::free_bytes() const {
  const std::scoped_lock lock(mutex_);
  return bytes() - in_blocks_ - in_awaited_;
}

std::byte* Memory::allocate(Bytes bytes, StreamId stream) {
  return allocate_block(bytes, stream, false);
}

std::byte* Memory::allocate_kept(Bytes bytes, StreamId stream) {
  return allocate_block(bytes, stream, true);
}

std::byte* Memory::allocate_block(Bytes bytes, StreamId stream, bool kept) {
  const std::scoped_lock lock(mutex_);
  const Block block{align_up(bytes, kBlockAlignment), bytes, stream, kept, {}};
  give_reached();
  if (to_refused_ > 0 && --to_refused_ == 0) refuse(bytes);
  const Bytes offset = take_or_wait(block.bytes);
  if (offset < 0) refuse(bytes);
  finish_others(offset, block.bytes, stream);
  blocks_[offset] = block;
  in_blocks_ += block.bytes;
  count(block);
  std::byte* const data = mappings_.device() + offset;
  counters_.taken.add(data, static_cast<std::size_t>(bytes));
  return data;
}

Bytes Memory::take(Bytes bytes) {
  return bytes <= holes_.largest() ? holes_.take(bytes, packing::Fit::best) : -1;
}

/// As CUDA's allocator does before it gives up, waits for the streams that still use ranges.
Bytes Memory::take_or_wait(Bytes bytes) {
  const Bytes offset = take(bytes);
  if (offset >= 0 || awaited_.empty()) return offset;
  ++stats_.num_alloc_retries;
  for (const Awaited& range : awaited_) {
    for (const Moment moment : range.moments) streams_.finish(moment);
  }
  give_reached();
  return take(bytes);
}

void Memory::release(const void* device) {
  const std::scoped_lock lock(mutex_);
  const auto block = blocks_.find(static_cast<const std::byte*>(device) - mappings_.device());
  if (block != blocks_.end() && !block->second.kept) {
    give(block->first, block->second);
    blocks_.erase(block);
    forget(device);
  }
}

void Memory::release_kept(const void* device) {
  const std::scoped_lock lock(mutex_);
  const auto block = blocks_.find(static_cast<const std::byte*>(device) - mappings_.device());
  give(block->first, block->second);
  blocks_.erase(block);
  forget(device);
}

void Memory::forget(const void* device) {
  counters_.taken.remove(device);
  counters_.unserved.remove(device);
}

void Memory::use(const void* device, StreamId stream) {
  const std::scoped_lock lock(mutex_);
  const auto block = blocks_.find(static_cast<const std::byte*>(device) - mappings_.device());
  if (block != blocks_.end() && block->second.stream != stream) {
    block->second.users.push_back(stream);
  }
}

void Memory::give(Bytes offset, const Block& block) {
  in_blocks_ -= block.bytes;
  all_pools(stats_.allocation).decrease(1);
  all_pools(stats_.allocated_bytes).decrease(static_cast<std::size_t>(block.bytes));
  all_pools(stats_.requested_bytes).decrease(static_cast<std::size_t>(block.asked));
  const Moment own = streams_.end(block.stream);
  if (!streams_.reached(own)) recent_.push_back({offset, block.bytes, {own}});
  std::vector<Moment> moments;
  for (const StreamId user : block.users) moments.push_back(streams_.end(user));
  awaited_.push_back({offset, block.bytes, std::move(moments)});
  in_awaited_ += block.bytes;
  give_reached();
}

void Memory::give_reached() {
  const auto is_reached = [&](const Awaited& range) {
    return std::ranges::all_of(range.moments, [&](Moment at) { return streams_.reached(at); });
  };
  std::erase_if(recent_, is_reached);
  std::erase_if(awaited_, [&](const Awaited& range) {
    if (!is_reached(range)) return false;
    holes_.give(range.offset, range.bytes);
    in_awaited_ -= range.bytes;
    all_pools(stats_.active).decrease(1);
    all_pools(stats_.active_bytes).decrease(static_cast<std::size_t>(range.bytes));
    return true;
  });
}

void Memory::finish_others(Bytes offset, Bytes bytes, StreamId stream) {
  for (const Awaited& range : recent_) {
    const bool overlaps = range.offset < offset + bytes && offset < range.offset + range.bytes;
    if (overlaps && range.moments[0].stream != stream) streams_.finish(range.moments[0]);
  }
}

void Memory::count(const Block& block) {
  const auto rounded = static_cast<std::size_t>(block.bytes);
  all_pools(stats_.allocation).increase(1);
  all_pools(stats_.active).increase(1);
  all_pools(stats_.allocated_bytes).increase(rounded);
  all_pools(stats_.active_bytes).increase(rounded);
  all_pools(stats_.requested_bytes).increase(static_cast<std::size_t>(block.asked));
  c10::CachingAllocator::Stat& reserved = all_pools(stats_.reserved_bytes);
  if (holes_.end() > reserved.current) {
    reserved.increase(static_cast<std::size_t>(holes_.end() - reserved.current));
  }
}

void Memory::refuse(Bytes asked) {
  ++stats_.num_ooms;
  C10_THROW_ERROR(
      OutOfMemoryError,
      fmt::format("simulated out of memory. Tried to allocate {}. Device 0 has a total capacity of "
                  "{} of which {} is free; {} is allocated by PyTorch.",
                  format_bytes(asked), format_bytes(bytes()),
                  format_bytes(bytes() - in_blocks_ - in_awaited_), format_bytes(in_blocks_)));
}

void Memory::refuse_request(std::int64_t count) {
  const std::scoped_lock lock(mutex_);
  to_refused_ = count;
}

c10::CachingDeviceAllocator::DeviceStats Memory::stats() const {
  const std::scoped_lock lock(mutex_);
  return stats_;
}

void Memory::reset_accumulated() {
  const std::scoped_lock lock(mutex_);
  for (StatArray* array : arrays_of(stats_)) all_pools(*array).reset_accumulated();
  stats_.num_alloc_retries = 0;
  stats_.num_ooms = 0;
}

void Memory::reset_peaks() {
  const std::scoped_lock lock(mutex_);
  for (StatArray* array : arrays_of(stats_)) all_pools(*array).reset_peak();
}

void Memory::trim() {
  streams_.finish_all();
  const std::scoped_lock lock(mutex_);
  give_reached();
  mappings_.discard_from(holes_.end());
  c10::CachingAllocator::Stat& reserved = all_pools(stats_.reserved_bytes);
  if (holes_.end() < reserved.current) {
    reserved.decrease(static_cast<std::size_t>(reserved.current - holes_.end()));
  }
}

}  // namespace lowtide::simulated
