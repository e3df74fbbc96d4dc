// Counts the bytes that the framework's CPU allocator has given and not taken back, now and at
// their most. Lies below any other allocator that is installed later, such as Lowtide's, which asks
// it for the block that a plan runs in.

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <unordered_map>

namespace {

class Ledger {
 public:
  static Ledger& instance() {
    static Ledger* const ledger = new Ledger;  // memory may come back when the process ends
    return *ledger;
  }

  void given(void* data, std::int64_t bytes) {
    const std::lock_guard lock(mutex_);
    sizes_[data] = bytes;
    now_ += bytes;
    peak_ = std::max(peak_, now_);
  }

  void taken_back(void* data) {
    const std::lock_guard lock(mutex_);
    const auto found = sizes_.find(data);
    if (found == sizes_.end()) return;  // given before the counter was installed
    now_ -= found->second;
    sizes_.erase(found);
  }

  std::int64_t now() {
    const std::lock_guard lock(mutex_);
    return now_;
  }

  std::int64_t peak() {
    const std::lock_guard lock(mutex_);
    return peak_;
  }

  void forget_peak() {
    const std::lock_guard lock(mutex_);
    peak_ = now_;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<void*, std::int64_t> sizes_;
  std::int64_t now_ = 0;
  std::int64_t peak_ = 0;
};

/// Hands every request on to the allocator that was there before.
class Counter final : public c10::Allocator {
 public:
  static void install() {
    below_ = c10::GetCPUAllocator();
    c10::SetCPUAllocator(new Counter, 0);  // so low that another one can be laid over it
  }

  c10::DataPtr allocate(std::size_t bytes) override {
    c10::DataPtr memory = below_->allocate(bytes);
    if (memory.get() == nullptr) return memory;
    Ledger::instance().given(memory.get(), static_cast<std::int64_t>(bytes));
    void* const data = memory.release_context();
    return {data, data, &release, c10::Device(c10::DeviceType::CPU)};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &release; }

  void copy_data(void* to, const void* from, std::size_t count) const override {
    default_copy_data(to, from, count);
  }

 private:
  static void release(void* data) {
    Ledger::instance().taken_back(data);
    below_->raw_deleter()(data);
  }

  static inline c10::Allocator* below_ = nullptr;
};

}  // namespace

extern "C" {
void counter_install() { Counter::install(); }
std::int64_t counter_now() { return Ledger::instance().now(); }
std::int64_t counter_peak() { return Ledger::instance().peak(); }
void counter_forget_peak() { Ledger::instance().forget_peak(); }
}
