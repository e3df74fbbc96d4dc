#include "profile/profiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "base/at.h"
#include "base/error.h"
#include "device/device.h"
#include "graph/boundary.h"
#include "profile/heavy_ops.h"
#include "profile/op_trial.h"
#include "runtime/stopwatch.h"

namespace lowtide::profile {
namespace {

struct Wanted {
  std::string key;
  OpId op;
};

/// One op of `ops` for each key to measure, in their order. View ops have cost 0: the executor
/// makes views once, before the steps.
std::vector<Wanted> wanted_ops(const Graph& graph, std::span<const OpId> ops,
                               cost::Profile& profile, Measure measure) {
  std::vector<Wanted> wanted;
  std::set<std::string> seen;
  for (const OpId id : ops) {
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

/// Measures ops, and then again those that decide the time of the step.
class Profiling {
 public:
  Profiling(const Graph& graph, cost::Profile& profile, const Control& control,
            const device::ComputeDevice& device)
      : graph_(graph), profile_(profile), control_(control), device_(device), room_(device) {}

  /// Returns how many.
  int measure(const std::vector<Wanted>& wanted) {
    int measured = 0;
    for (const Wanted& next : wanted) {
      if (control_.should_stop()) break;
      control_.report(fmt::format("profiling op {} of {}: {}", measured + 1, wanted.size(),
                                  graph_.op(next.op).type));
      measure(next);
      ++measured;
    }
    return measured;
  }

  /// Other programs slow a machine down for seconds, and an op that a step runs a hundred times has
  /// its one measurement counted a hundred times. So heavy ops are measured in further rounds until
  /// their two shortest times agree, at most as long as all took before.
  void confirm() {
    if (times_.empty()) return;  // all were known: pricing a large graph would take a while
    const double most_seconds = all_.seconds();
    const runtime::Stopwatch confirming;
    std::vector<Wanted> doubtful = heavy();
    std::erase_if(doubtful, [&](const Wanted& op) { return is_confirmed(times_.at(op.key)); });
    while (!doubtful.empty() && confirming.seconds() < most_seconds) {
      for (const Wanted& next : doubtful) {
        if (control_.should_stop()) return;
        control_.report(fmt::format("profiling again: {}", graph_.op(next.op).type));
        measure(next);
      }
      std::erase_if(doubtful, [&](const Wanted& op) { return is_confirmed(times_.at(op.key)); });
    }
  }

 private:
  void measure(const Wanted& op) {
    const cost::OpProfile measured = try_op(graph_, op.op, device_, room_);
    times_[op.key].push_back(measured.microseconds);
    enter(profile_, op.key, measured);
  }

  /// Of those that were measured here.
  std::vector<Wanted> heavy() const {
    std::vector<Wanted> found;
    for (const OpId id : heavy_ops(cost::priced(graph_, profile_))) {
      std::string key = cost::profile_key(graph_, id);
      if (times_.contains(key)) found.push_back({std::move(key), id});
    }
    return found;
  }

  static bool is_confirmed(std::vector<double> times) {
    constexpr double kAlike = 0.03;
    std::ranges::sort(times);
    if (times[0] >= kLongSeconds * 1e6) return true;
    return times.size() > 1 && times[1] <= (1 + kAlike) * times[0];
  }

  const Graph& graph_;
  cost::Profile& profile_;
  const Control& control_;
  const device::ComputeDevice& device_;
  TrialMemory room_;
  const runtime::Stopwatch all_;
  std::map<std::string, std::vector<double>> times_;  ///< us, by key
};

}  // namespace

std::vector<OpId> all_ops(const Graph& graph) {
  std::vector<OpId> ops(at(graph.num_ops()));
  std::iota(ops.begin(), ops.end(), OpId{0});
  return ops;
}

int profile_some(const Graph& graph, std::span<const OpId> ops, cost::Profile& profile,
                 const Control& control, Measure measure, const device::ComputeDevice& device) {
  if (!graph.executable()) {
    throw InputError(
        fmt::format("graph \"{}\" cannot be profiled: its ops carry no arguments", graph.name()));
  }
  cost::require_device(profile, device.name());
  profile.device = device.name();
  if (profile.alignment != device.alignment()) profile.ops.clear();  // their offsets do not hold
  profile.alignment = device.alignment();
  const std::vector<Wanted> wanted = wanted_ops(graph, ops, profile, measure);
  Profiling profiling(graph, profile, control, device);
  const int measured = profiling.measure(wanted);
  profiling.confirm();
  return measured;
}

int profile_ops(const Graph& graph, cost::Profile& profile, const Control& control, Measure measure,
                const device::ComputeDevice& device) {
  return profile_some(graph, all_ops(graph), profile, control, measure, device);
}

}  // namespace lowtide::profile
