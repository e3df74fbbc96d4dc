#include "parallel/placement_space.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace lowtide::parallel {
namespace {

std::vector<int> divisors(int whole) {
  std::vector<int> found;
  for (int d = 1; d <= whole; ++d) {
    if (whole % d == 0) found.push_back(d);
  }
  return found;
}

/// Data, tensor and pipeline widths.
struct Widths {
  int data = 1, tensor = 1, pipeline = 1;
};

std::vector<Widths> all_widths(const LayeredModel& model, const Cluster& cluster,
                               const PlacementLimits& limits) {
  std::vector<Widths> widths;
  const int ranks = cluster.ranks();
  const auto allows = [](std::optional<int> limit, int width) { return !limit || *limit == width; };
  for (int tensor : divisors(cluster.devices_per_node)) {
    if (!allows(limits.tensor, tensor) || !model.can_split(tensor)) continue;
    for (int pipeline : divisors(ranks / tensor)) {
      const int data = ranks / tensor / pipeline;
      if (pipeline > static_cast<int>(model.sequence.size())) break;
      if (allows(limits.pipeline, pipeline) && allows(limits.data, data)) {
        widths.push_back({data, tensor, pipeline});
      }
    }
  }
  return widths;
}

std::vector<std::int64_t> micro_batches(const LayeredModel& model, const PlacementLimits& limits,
                                        int data) {
  std::vector<std::int64_t> sizes;
  if (limits.global_batch % data != 0) return sizes;
  const std::int64_t each = limits.global_batch / data;
  const std::int64_t most = limits.micro_batch.value_or(limits.largest_micro_batch);
  for (std::int64_t size = limits.micro_batch.value_or(1); size <= std::min(each, most); ++size) {
    if (each % size == 0 && model.can_take(size)) sizes.push_back(size);
  }
  return sizes;
}

std::vector<Pipeline> schedules(const LayeredModel& model, const PlacementLimits& limits,
                                int stages, std::int64_t count) {
  std::vector<Pipeline> found;
  const auto wanted = [&](Schedule schedule) {
    return !limits.schedule || *limits.schedule == schedule;
  };
  if (limits.schedule == Schedule::gpipe) {
    found.push_back({.schedule = Schedule::gpipe, .stages = stages, .micro_batches = count});
  }
  if (wanted(Schedule::one_f_one_b)) {
    found.push_back({.stages = stages, .micro_batches = count});
  }
  const std::optional<UnitRange> repeated = repeated_units(model);
  if (!wanted(Schedule::interleaved) || !repeated || stages == 1 || count % stages != 0) {
    return found;
  }
  const int units = repeated->last - repeated->first + 1;
  for (int chunks = 2; units % stages == 0 && chunks <= units / stages; ++chunks) {
    if (units % (stages * chunks) != 0) continue;
    found.push_back({.schedule = Schedule::interleaved,
                     .stages = stages,
                     .chunks = chunks,
                     .micro_batches = count});
  }
  return found;
}

std::vector<Sharding> shardings(const Cluster& cluster, const PlacementLimits& limits,
                                const Widths& widths) {
  std::vector<Sharding> found{{}};
  const int in_node = cluster.devices_per_node / widths.tensor;
  // Ranks of a node are together where a stage begins with a node.
  const bool copies = in_node > 1 && widths.data > in_node && widths.data % in_node == 0;
  for (int stage = 1; stage <= 3 && widths.data > 1; ++stage) {
    found.push_back({.stage = stage});
    if (copies) found.push_back({.stage = stage, .within_node = true});
  }
  if (limits.sharding) {
    std::erase_if(found, [&](const Sharding& one) { return one != *limits.sharding; });
  }
  return found;
}

bool divides_tokens(const PlacementLimits& limits, int tensor) {
  return limits.sequence_parallel && tensor > 1 && limits.sequence % tensor == 0;
}

[[noreturn]] void refuse_limits(const Cluster& cluster, const PlacementLimits& limits,
                                bool has_widths) {
  if (!has_widths) {
    throw InputError(fmt::format(
        "no widths fit {} ranks with {} devices in a node: data x tensor x pipeline must be all "
        "ranks, tensor must divide the devices of a node and the model's heads, and the pipeline "
        "cannot have more stages than the model has layers and ends. Change or leave out --data, "
        "--tensor or --pipeline.",
        cluster.ranks(), cluster.devices_per_node));
  }
  throw InputError(fmt::format(
      "no micro-batches fit: a global batch of {} must be a multiple of the data-parallel ranks "
      "times the micro-batch, and --schedule and --zero must suit the widths. Change "
      "--global-batch, or leave out --micro-batch, --schedule, --zero or --data.",
      limits.global_batch));
}

}  // namespace

std::optional<UnitRange> repeated_units(const LayeredModel& model) {
  const std::vector<int>& sequence = model.sequence;
  const int size = static_cast<int>(sequence.size());
  if (size < 2) return std::nullopt;
  const int kind = sequence[static_cast<std::size_t>(size / 2)];
  const UnitRange middle{sequence.front() == kind ? 0 : 1,
                         sequence.back() == kind ? size - 1 : size - 2};
  for (int i = middle.first; i <= middle.last; ++i) {
    if (sequence[static_cast<std::size_t>(i)] != kind) return std::nullopt;
  }
  return middle;
}

std::vector<Placement> all_placements(const LayeredModel& model, const Cluster& cluster,
                                      const PlacementLimits& limits) {
  std::vector<Placement> placements;
  const std::vector<Widths> widths = all_widths(model, cluster, limits);
  for (const Widths& width : widths) {
    for (std::int64_t size : micro_batches(model, limits, width.data)) {
      const std::int64_t count = limits.global_batch / width.data / size;
      for (const Pipeline& pipeline : schedules(model, limits, width.pipeline, count)) {
        for (const Sharding& sharding : shardings(cluster, limits, width)) {
          placements.push_back({.data = width.data,
                                .tensor = width.tensor,
                                .sequence_parallel = divides_tokens(limits, width.tensor),
                                .pipeline = pipeline,
                                .micro_batch = size,
                                .sharding = sharding});
        }
      }
    }
  }
  if (placements.empty()) refuse_limits(cluster, limits, !widths.empty());
  return placements;
}

}  // namespace lowtide::parallel
