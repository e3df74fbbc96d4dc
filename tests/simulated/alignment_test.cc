#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "device/each_device.h"
#include "planner/planner.h"
#include "profile/profiler.h"
#include "runtime/training_sample.h"

namespace lowtide::simulated {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const device::ComputeDevice& installed_512() { return device::installed_simulated(); }

Graph measured(const Graph& graph, cost::Profile& profile) {
  profile::profile_ops(graph, profile, Control(), profile::Measure::lacking, installed_512());
  return cost::priced(graph, profile);
}

TEST(Alignment, OfTheDeviceReachesScratchAndPlannedAddresses) {
  cost::Profile profile;
  const Graph graph = measured(runtime::sample().graph, profile);
  EXPECT_EQ(graph.alignment(), 512);
  for (const Op& op : graph.ops()) {
    for (const Allocation& request : op.allocations) EXPECT_EQ(request.offset % 512, 0) << op.name;
  }
  const Bytes budget = keep_all_reference(graph).peak_bytes * 3 / 2;
  Control control(0.3);
  const planner::Planned planned =
      planner::plan_within(graph, strategy::default_strategy(), budget, {}, control);
  ASSERT_TRUE(planned.plan) << planned.message;
  for (const auto& placements : planned.plan->layout->placements) {
    for (const Placement& placement : placements) EXPECT_EQ(placement.offset % 512, 0);
  }
}

TEST(Alignment, OpsMeasuredWithAnotherAreMeasuredAgain) {
  cost::Profile profile;
  measured(runtime::sample().graph, profile);
  const auto wanted = profile.ops.size();
  profile.alignment = 64;
  profile.ops["an op of another graph"] = {};
  measured(runtime::sample().graph, profile);
  EXPECT_EQ(profile.alignment, 512);
  EXPECT_EQ(profile.ops.size(), wanted);
}

TEST(Alignment, APlanForADeviceWithALesserOneIsRefused) {
  const runtime::Sample& s = runtime::measured_on(device::cpu_device(), runtime::sample);
  const runtime::ExecutorOptions options{.device = &installed_512()};
  EXPECT_THAT([&] { runtime::Executor(s.graph, runtime::keep_all_plan(s.graph), options); },
              ThrowsMessage<InputError>(
                  AllOf(HasSubstr("addresses at multiples of 64"), HasSubstr("plan again"))));
}

}  // namespace
}  // namespace lowtide::simulated
