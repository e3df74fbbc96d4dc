#include <gtest/gtest.h>

#include "profile/op_trial.h"
#include "profile/profiler.h"
#include "runtime/graph_maker.h"

namespace lowtide::profile {
namespace {

using runtime::GraphMaker;
using runtime::T;

/// Says that all work takes so long, and counts how often it is timed.
class ToldTimer final : public device::WorkTimer {
 public:
  ToldTimer(double seconds, int& starts) : seconds_(seconds), starts_(starts) {}
  void start() override { ++starts_; }
  void stop() override {}
  Times times() override { return {seconds_, 0}; }

 private:
  double seconds_;
  int& starts_;
};

/// The processor, with another clock.
class ToldDevice final : public device::ComputeDevice {
 public:
  explicit ToldDevice(double seconds) : seconds_(seconds) {}
  int starts() const { return starts_; }

  std::unique_ptr<device::WorkTimer> work_timer() const override {
    return std::make_unique<ToldTimer>(seconds_, starts_);
  }

  std::string name() const override { return cpu_.name(); }
  c10::Device torch_device() const override { return cpu_.torch_device(); }
  bool is_host_memory() const override { return cpu_.is_host_memory(); }
  Bytes alignment() const override { return cpu_.alignment(); }
  std::shared_ptr<std::byte> allocate_block(Bytes bytes) const override {
    return cpu_.allocate_block(bytes);
  }
  std::shared_ptr<std::byte> allocate_scratch(Bytes bytes) const override {
    return cpu_.allocate_scratch(bytes);
  }
  device::MemorySource& system() const override { return cpu_.system(); }
  std::shared_ptr<void> serve(device::MemorySource& source,
                              device::MemorySource& unordered) const override {
    return cpu_.serve(source, unordered);
  }
  const device::AllocationCounters& count_allocations() const override {
    return cpu_.count_allocations();
  }
  void reset_allocation_peaks() const override { cpu_.reset_allocation_peaks(); }
  Bytes generator_state_bytes() const override { return cpu_.generator_state_bytes(); }
  void save_generator(std::byte* state) const override { cpu_.save_generator(state); }
  void restore_generator(const std::byte* state) const override { cpu_.restore_generator(state); }
  void synchronize() const override { cpu_.synchronize(); }

 private:
  const device::ComputeDevice& cpu_ = device::cpu_device();
  double seconds_;
  mutable int starts_ = 0;
};

Graph product() {
  GraphMaker m("product");
  const TensorId a = m.resident("a", {4, 4}, Initializer{Initializer::Kind::constant, 1, 0});
  return m.build({m.op1("aten::mm", {T{a}, T{a}})});
}

TEST(LongOps, AreTimedByTheRunThatRecordsThem) {
  const ToldDevice slow(2 * kLongSeconds);
  cost::Profile profile;
  const Graph graph = product();
  EXPECT_EQ(profile_ops(graph, profile, Control(), Measure::lacking, slow), 1);
  EXPECT_EQ(slow.starts(), 2);  // the first call may do one-time setup
  EXPECT_EQ(profile.ops.at(cost::profile_key(graph, 0)).microseconds, 2e6 * kLongSeconds);
}

TEST(LongOps, ShorterOnesAreTimedSomeTimesMore) {
  const ToldDevice fast(kLongSeconds / 2);
  cost::Profile profile;
  profile_ops(product(), profile, Control(), Measure::lacking, fast);
  EXPECT_GT(fast.starts(), 5);
}

}  // namespace
}  // namespace lowtide::profile
