// Counts the bytes of tensors, now and at their most: those of the framework's CPU allocator, below
// whatever other allocator is installed later, and those that Lowtide maps for its arena without
// asking the allocator. To be preloaded (LD_PRELOAD), so that the second kind is seen.

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <dlfcn.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <unordered_map>

namespace {

class Ledger {
 public:
  static Ledger& instance() {
    static Ledger* const ledger = new Ledger;  // memory may come back when the process ends
    return *ledger;
  }

  void allocated(void* data, std::int64_t bytes) {
    const std::lock_guard lock(mutex_);
    sizes_[data] = bytes;
    add(bytes);
  }

  void released(void* data) {
    const std::lock_guard lock(mutex_);
    const auto found = sizes_.find(data);
    if (found == sizes_.end()) return;  // older than the ledger
    add(-found->second);
    sizes_.erase(found);
  }

  /// A mapping of which `open` bytes may be written.
  void mapped(const char* begin, std::size_t length, std::int64_t open) {
    const std::lock_guard lock(mutex_);
    mappings_[begin] = {begin + length, open};
    add(open);
  }

  /// More of a mapping may be written.
  void opened(const char* begin, std::int64_t bytes) {
    const std::lock_guard lock(mutex_);
    auto after = mappings_.upper_bound(begin);
    if (after == mappings_.begin() || begin >= std::prev(after)->second.end) return;
    std::prev(after)->second.open += bytes;
    add(bytes);
  }

  void unmapped(const char* begin) {
    const std::lock_guard lock(mutex_);
    const auto found = mappings_.find(begin);
    if (found == mappings_.end()) return;
    add(-found->second.open);
    mappings_.erase(found);
  }

  std::int64_t now() const { return now_; }
  std::int64_t peak() const { return peak_; }
  void forget_peak() { peak_ = now_; }

 private:
  struct Mapping {
    const char* end;
    std::int64_t open;
  };

  void add(std::int64_t bytes) {
    now_ += bytes;
    peak_ = std::max(peak_, now_);
  }

  std::mutex mutex_;
  std::unordered_map<void*, std::int64_t> sizes_;
  std::map<const char*, Mapping> mappings_;  // by begin, disjoint
  std::int64_t now_ = 0;
  std::int64_t peak_ = 0;
};

/// Hands every request on to the allocator that was there before.
class Counter final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    c10::DataPtr memory = below_->allocate(bytes);
    if (memory.get() == nullptr) return memory;
    Ledger::instance().allocated(memory.get(), static_cast<std::int64_t>(bytes));
    void* const data = memory.release_context();
    return {data, data, &release, c10::Device(c10::DeviceType::CPU)};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &release; }

  void copy_data(void* to, const void* from, std::size_t count) const override {
    default_copy_data(to, from, count);
  }

  static void install() {
    below_ = c10::GetCPUAllocator();
    c10::SetCPUAllocator(new Counter, 0);  // so low that another one can be laid over it
  }

 private:
  static void release(void* data) {
    Ledger::instance().released(data);
    below_->raw_deleter()(data);
  }

  static inline c10::Allocator* below_ = nullptr;
};

template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

bool of_lowtide(const void* code) {
  Dl_info library;
  return dladdr(code, &library) != 0 && std::strstr(library.dli_fname, "/lowtide/_") != nullptr;
}

}  // namespace

extern "C" {

void* mmap(void* address, std::size_t length, int protection, int flags, int file, off_t offset) {
  static const auto system = next<decltype(mmap)>("mmap");
  void* const data = system(address, length, protection, flags, file, offset);
  if (data != MAP_FAILED && (flags & MAP_ANONYMOUS) && of_lowtide(__builtin_return_address(0))) {
    const bool open = protection & PROT_WRITE;
    Ledger::instance().mapped(static_cast<char*>(data), length,
                              open ? static_cast<std::int64_t>(length) : 0);
  }
  return data;
}

int mprotect(void* begin, std::size_t length, int protection) {
  static const auto system = next<decltype(mprotect)>("mprotect");
  const int failed = system(begin, length, protection);
  if (!failed && (protection & PROT_WRITE) && of_lowtide(__builtin_return_address(0))) {
    Ledger::instance().opened(static_cast<char*>(begin), static_cast<std::int64_t>(length));
  }
  return failed;
}

int munmap(void* begin, std::size_t length) {
  static const auto system = next<decltype(munmap)>("munmap");
  if (of_lowtide(__builtin_return_address(0))) {
    Ledger::instance().unmapped(static_cast<char*>(begin));
  }
  return system(begin, length);
}

void counter_install() { Counter::install(); }
std::int64_t counter_now() { return Ledger::instance().now(); }
std::int64_t counter_peak() { return Ledger::instance().peak(); }
void counter_forget_peak() { Ledger::instance().forget_peak(); }
}
