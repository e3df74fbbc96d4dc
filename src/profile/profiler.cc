#include "profile/profiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.h"
#include "device/device.h"
#include "graph/boundary.h"
#include "profile/op_trial.h"

namespace lowtide::profile {
namespace {

struct Wanted {
  std::string key;
  OpId op;
};

/// One op for each key to measure, in the order of the graph. View ops have cost 0: the executor
/// makes views once, before the steps.
std::vector<Wanted> wanted_ops(const Graph& graph, cost::Profile& profile, Measure measure) {
  std::vector<Wanted> wanted;
  std::set<std::string> seen;
  for (OpId id = 0; id < graph.num_ops(); ++id) {
    std::string key = cost::profile_key(graph, id);
    if (measure == Measure::lacking && profile.ops.contains(key)) continue;
    if (is_boundary(graph.op(id))) continue;
    if (graph.is_view_op(id)) {
      profile.ops[key] = {};
    } else if (seen.insert(key).second) {
      wanted.push_back({std::move(key), id});
    }
  }
  return wanted;
}

void enter(cost::Profile& profile, const std::string& key, cost::OpProfile measured) {
  const auto [entry, is_new] = profile.ops.try_emplace(key, measured);
  if (is_new) return;
  const cost::OpProfile& before = entry->second;
  measured.microseconds = std::min(measured.microseconds, before.microseconds);
  measured.launch_microseconds = std::min(measured.launch_microseconds, before.launch_microseconds);
  entry->second = std::move(measured);
}

}  // namespace

int profile_ops(const Graph& graph, cost::Profile& profile, const Control& control, Measure measure,
                const device::ComputeDevice& device) {
  if (!graph.executable()) {
    throw InputError(
        fmt::format("graph \"{}\" cannot be profiled: its ops carry no arguments", graph.name()));
  }
  cost::require_device(profile, device.name());
  profile.device = device.name();
  if (profile.alignment != device.alignment()) profile.ops.clear();  // their offsets do not hold
  profile.alignment = device.alignment();
  const std::vector<Wanted> wanted = wanted_ops(graph, profile, measure);
  TrialMemory room(device);
  int measured = 0;
  for (const Wanted& next : wanted) {
    if (control.should_stop()) break;
    control.report(fmt::format("profiling op {} of {}: {}", measured + 1, wanted.size(),
                               graph.op(next.op).type));
    enter(profile, next.key, try_op(graph, next.op, device, room));
    ++measured;
  }
  return measured;
}

}  // namespace lowtide::profile
