#include "parallel/stage_costs.h"

#include <algorithm>

#include "parallel/cluster/collectives.h"

namespace lowtide::parallel {
namespace {

/// More bytes than any rank holds.
constexpr Bytes kMostActivations = Bytes{1} << 52;

Bytes part_of(Bytes bytes, int ranks) { return (bytes + ranks - 1) / ranks; }

/// What a rank has of a state of which data-parallel ranks divide some.
StateBytes sharded(const StateBytes& whole, const Sharding& sharding, int ranks) {
  const auto part = [&](Bytes bytes, int from_stage) {
    return sharding.stage >= from_stage ? part_of(bytes, ranks) : bytes;
  };
  return {.parameters = part(whole.parameters, 3),
          .gradients = part(whole.gradients, 2),
          .optimizer = part(whole.optimizer, 1),
          .others = whole.others};
}

/// An operation for each of so many units, of so many bytes together and for the largest.
struct Messages {
  Group group;
  int units = 0;
  Bytes all = 0, largest = 0;
};

using Collective = double (*)(const Cluster& cluster, const Group& group, double bytes);

Hidden hidden(const Cluster& cluster, const Messages& messages, Collective collective) {
  const double alone = collective(cluster, messages.group, 0);
  return {.all = collective(cluster, messages.group, static_cast<double>(messages.all)) +
                 (messages.units - 1) * alone,
          .first = collective(cluster, messages.group, static_cast<double>(messages.largest))};
}

Hidden operator+(const Hidden& a, const Hidden& b) {
  return {.all = a.all + b.all, .first = a.first + b.first};
}

int count_units(const UnitRanges& ranges) {
  int units = 0;
  for (const UnitRange& range : ranges) units += range.last - range.first + 1;
  return units;
}

StateBytes whole_state(const StagePlans& plans, const UnitRanges& ranges) {
  StateBytes state;
  for (const UnitRange& range : ranges) state += plans.state(range.first, range.last);
  return state;
}

StateBytes largest_state(const StagePlans& plans, const UnitRanges& ranges) {
  StateBytes largest;
  for (const UnitRange& range : ranges) {
    const StateBytes state = plans.largest_state(range.first, range.last);
    largest.parameters = std::max(largest.parameters, state.parameters);
    largest.gradients = std::max(largest.gradients, state.gradients);
  }
  return largest;
}

/// Of the units of the last kind among `chosen`, or a new entry.
void add_chosen(std::vector<ChosenPlan>& chosen, int kind, int units, const UnitPlan& plan) {
  const auto known = std::ranges::find_if(chosen, [&](const ChosenPlan& other) {
    return other.kind == kind && other.plan.reruns == plan.reruns;
  });
  if (known == chosen.end()) {
    chosen.push_back({.kind = kind, .units = units, .plan = plan});
  } else {
    known->units += units;
  }
}

}  // namespace

double Hidden::beside(double compute) const { return std::max(compute + first, all); }

StageCosts::StageCosts(const Cluster& cluster, const Placement& placement,
                       const std::vector<StagePlans*>& plans)
    : cluster_(cluster), placement_(placement), plans_(plans) {
  for (int stage = 0; stage < placement.pipeline.stages; ++stage) {
    neighbours_.push_back(neighbours_of(stage));
  }
}

StageNeighbours StageCosts::neighbours_of(int stage) const {
  const int width = placement_.ranks_of_stage(), first = stage * width;
  const int shard = shard_ranks(), stride = placement_.tensor;
  StageNeighbours found{
      .shard = group_of(cluster_, first, shard, stride),
      .copies = group_of(cluster_, first, placement_.data / shard, shard * stride),
      .next = cluster_.within_node};
  for (int rank = first; rank < first + width; ++rank) {
    const int next = (rank + width) % placement_.ranks();
    if (rank / cluster_.devices_per_node != next / cluster_.devices_per_node) {
      found.next = cluster_.between_nodes;
    }
  }
  return found;
}

int StageCosts::shard_ranks() const {
  return placement_.sharding.within_node ? cluster_.devices_per_node / placement_.tensor
                                         : placement_.data;
}

std::vector<int> StageCosts::kinds_of(int stage) const {
  const int width = placement_.ranks_of_stage();
  return cluster_.kinds_of(stage * width, width);
}

StageState StageCosts::state(const UnitRanges& ranges) const {
  const StagePlans& any = *plans_.front();
  const int zero = placement_.sharding.stage;
  StageState state{.state = sharded(whole_state(any, ranges), placement_.sharding, shard_ranks())};
  if (zero >= 2 && placement_.data > 1) {
    const StateBytes largest = largest_state(any, ranges);
    // While one unit computes, the parameters of the next one arrive.
    const int arriving = count_units(ranges) > 1 ? 2 : 1;
    state.gathered = largest.gradients + (zero == 3 ? arriving * largest.parameters : 0);
  }
  if (placement_.pipeline.stages > 1) {
    for (const UnitRange& range : ranges) {
      const Bytes sent = range.last + 1 < num_units() ? any.unit(range.last).result_bytes : 0;
      const Bytes back = range.first > 0 ? any.unit(range.first - 1).result_bytes : 0;
      state.messages = std::max(state.messages, sent + back);
    }
  }
  return state;
}

StageCommunication StageCosts::communication(int stage, const UnitRanges& ranges) const {
  const StagePlans& any = *plans_.front();
  StageCommunication found;
  const int stages = placement_.pipeline.stages;
  const StageNeighbours& near = neighbours_[static_cast<std::size_t>(stage)];
  const Link& back = neighbours_[static_cast<std::size_t>((stage + stages - 1) % stages)].next;
  for (const UnitRange& range : ranges) {
    if (stages == 1) break;
    if (range.last + 1 < num_units()) {
      found.send_forward +=
          send_seconds(near.next, static_cast<double>(any.unit(range.last).result_bytes));
    }
    if (range.first > 0) {
      found.send_backward +=
          send_seconds(back, static_cast<double>(any.unit(range.first - 1).result_bytes));
    }
  }
  const StateBytes whole = whole_state(any, ranges);
  const StateBytes largest = largest_state(any, ranges);
  const int units = count_units(ranges);
  const Messages parameters{near.shard, units, whole.parameters, largest.parameters};
  const Messages gradients{near.shard, units, whole.gradients, largest.gradients};
  const Messages copies{near.copies, units, part_of(whole.gradients, near.shard.ranks),
                        part_of(largest.gradients, near.shard.ranks)};
  switch (placement_.sharding.stage) {
    case 0: found.gradients = hidden(cluster_, gradients, all_reduce_seconds); break;
    case 1:
      found.gradients = hidden(cluster_, gradients, reduce_scatter_seconds);
      found.parameters = hidden(cluster_, parameters, all_gather_seconds);
      break;
    case 2:
      found.backward = hidden(cluster_, gradients, reduce_scatter_seconds);
      found.parameters = hidden(cluster_, parameters, all_gather_seconds);
      break;
    default:
      found.forward = hidden(cluster_, parameters, all_gather_seconds);
      found.backward = found.forward + hidden(cluster_, gradients, reduce_scatter_seconds);
  }
  if (placement_.sharding.within_node) {
    found.gradients = found.gradients + hidden(cluster_, copies, all_reduce_seconds);
  }
  const bool has_first = ranges.front().first == 0;
  const bool has_last = ranges.back().last == num_units() - 1;
  const StateBytes& tied = any.unit(0).tied;
  if (has_first != has_last && tied.gradients > 0) {
    const int apart = (stages - 1) * placement_.ranks_of_stage();
    found.tied = all_reduce_seconds(cluster_, group_of(cluster_, 0, 2, apart),
                                    static_cast<double>(tied.gradients));
  }
  return found;
}

double StageCosts::update_seconds(int kind, const StateBytes& state) const {
  // Reads and writes parameters and state, and reads gradients.
  const Bytes parameters = placement_.sharding.stage > 0 && placement_.sharding.stage < 3
                               ? part_of(state.parameters, shard_ranks())
                               : state.parameters;
  const Bytes gradients =
      placement_.sharding.stage == 1 ? part_of(state.gradients, shard_ranks()) : state.gradients;
  return static_cast<double>(2 * parameters + gradients + 2 * state.optimizer) /
         cluster_.kinds[static_cast<std::size_t>(kind)].device.bytes_per_second;
}

std::optional<StageCosts::RankPlan> StageCosts::fastest(int kind, int stage,
                                                        const UnitRanges& ranges, Bytes available,
                                                        bool with_plans) const {
  if (ranges.size() > 1) return fastest_of_chunks(kind, stage, ranges, available, with_plans);
  const std::int64_t in_flight = most_in_flight(placement_.pipeline, stage);
  const auto [first, last] = ranges.front();
  const std::optional<StagePlan> plan =
      with_plans ? plans(kind).fastest_with_plans(first, last, available, in_flight)
                 : plans(kind).fastest(first, last, available, in_flight);
  if (!plan) return std::nullopt;
  RankPlan found{.held_bytes = plan->held_bytes * in_flight,
                 .working_bytes = plan->working_bytes,
                 .backward_seconds = plan->backward_seconds};
  for (std::size_t i = 0; i < plan->plans.size(); ++i) {
    const int position = first + static_cast<int>(i);
    add_chosen(found.chosen, plans(kind).kind(position), 1,
               plans(kind).unit(position).plans[static_cast<std::size_t>(plan->plans[i])]);
  }
  return found;
}

/// All chunks have the same plans, apart from the first and the last unit of the model, whose plans
/// are tried one by one.
std::optional<StageCosts::RankPlan> StageCosts::fastest_of_chunks(int kind, int stage,
                                                                  const UnitRanges& ranges,
                                                                  Bytes available,
                                                                  bool with_plans) const {
  const Pipeline& pipeline = placement_.pipeline;
  const std::int64_t in_flight = most_in_flight(pipeline, stage);
  const bool has_first = ranges.front().first == 0;
  const bool has_last = ranges.back().last == num_units() - 1;
  const UnitRange alike = has_first ? ranges.back() : ranges.front();
  const UnitRange middle{alike.first, alike.last - (has_first && has_last ? 1 : 0)};
  struct End {
    int position;
    std::int64_t in_flight;
  };
  std::vector<End> ends;
  if (has_first) {
    ends.push_back({0, most_of_first_unit(pipeline)});
  }
  if (has_last) ends.push_back({num_units() - 1, 1});
  std::vector<RankPlan> with_ends(1);
  for (const End& end : ends) {
    std::vector<RankPlan> next;
    for (const RankPlan& before : with_ends) {
      for (const UnitPlan& plan : plans(kind).unit(end.position).plans) {
        RankPlan added = before;
        added.held_bytes += plan.held_bytes * end.in_flight;
        added.working_bytes = std::max(added.working_bytes, plan.working_bytes);
        added.backward_seconds += plan.backward_seconds;
        if (with_plans) add_chosen(added.chosen, plans(kind).kind(end.position), 1, plan);
        next.push_back(std::move(added));
      }
    }
    with_ends = std::move(next);
  }
  std::optional<RankPlan> best;
  for (RankPlan& candidate : with_ends) {
    if (candidate.held_bytes + candidate.working_bytes > available) continue;
    const Bytes left = available - candidate.held_bytes;
    const std::optional<StagePlan> plan =
        with_plans ? plans(kind).fastest_with_plans(middle.first, middle.last, left, in_flight,
                                                    candidate.working_bytes)
                   : plans(kind).fastest(middle.first, middle.last, left, in_flight,
                                         candidate.working_bytes);
    if (!plan) continue;
    candidate.held_bytes += plan->held_bytes * in_flight;
    candidate.working_bytes = std::max(candidate.working_bytes, plan->working_bytes);
    candidate.backward_seconds += plan->backward_seconds * pipeline.chunks;
    if (best && candidate.backward_seconds >= best->backward_seconds) continue;
    for (std::size_t i = 0; i < plan->plans.size(); ++i) {
      const int position = middle.first + static_cast<int>(i);
      add_chosen(candidate.chosen, plans(kind).kind(position), pipeline.chunks,
                 plans(kind).unit(position).plans[static_cast<std::size_t>(plan->plans[i])]);
    }
    best = std::move(candidate);
  }
  return best;
}

StageSeconds StageCosts::seconds_with(int kind, const UnitRanges& ranges, const StageState& state,
                                      const StageCommunication& communication,
                                      double backward_seconds) const {
  double forward = 0, least_backward = 0;
  for (const UnitRange& range : ranges) {
    forward += plans(kind).forward_seconds(range.first, range.last);
    least_backward += plans(kind).least_backward_seconds(range.first, range.last);
  }
  // The tail does not depend on reruns, behind which more could be hidden: then the fastest plan is
  // the best one whatever the rest of the step is.
  const double exposed = communication.gradients.beside(least_backward) - least_backward +
                         communication.parameters.beside(forward) - forward;
  return {.forward = communication.forward.beside(forward) + communication.send_forward,
          .backward = communication.backward.beside(backward_seconds) + communication.send_backward,
          .tail = exposed + communication.tied + update_seconds(kind, state.state)};
}

std::optional<StageSeconds> StageCosts::seconds(int stage, const UnitRanges& ranges) const {
  const StageState held = state(ranges);
  const StageCommunication talk = communication(stage, ranges);
  StageSeconds slowest;
  for (int kind : kinds_of(stage)) {
    const Bytes available =
        cluster_.kinds[static_cast<std::size_t>(kind)].memory_bytes - held.all();
    const std::optional<RankPlan> plan = fastest(kind, stage, ranges, available, false);
    if (!plan) return std::nullopt;
    const StageSeconds own = seconds_with(kind, ranges, held, talk, plan->backward_seconds);
    slowest.forward = std::max(slowest.forward, own.forward);
    slowest.backward = std::max(slowest.backward, own.backward);
    slowest.tail = std::max(slowest.tail, own.tail);
  }
  return slowest;
}

Bytes StageCosts::least_bytes(int stage, const UnitRanges& ranges) const {
  const Bytes others = state(ranges).all();
  if (ranges.size() == 1) {
    return others + plans_.front()->least_bytes(ranges.front().first, ranges.front().last,
                                                most_in_flight(placement_.pipeline, stage));
  }
  Bytes too_few = -1, enough = kMostActivations;
  while (enough - too_few > 1) {
    const Bytes middle = too_few + (enough - too_few) / 2;
    (fastest(0, stage, ranges, middle, false) ? enough : too_few) = middle;
  }
  return others + enough;
}

RankReport StageCosts::report_of_kind(int kind, int stage, const UnitRanges& ranges) const {
  const StageState held = state(ranges);
  const StageCommunication talk = communication(stage, ranges);
  const Bytes memory = cluster_.kinds[static_cast<std::size_t>(kind)].memory_bytes;
  const std::optional<RankPlan> plan = fastest(kind, stage, ranges, memory - held.all(), true);
  RankReport report{.stage = stage, .node_kind = kind, .units = ranges, .plans = plan->chosen};
  report.in_flight = most_in_flight(placement_.pipeline, stage);
  report.available_bytes = memory;
  estimate::add_to(report.memory, "parameters", held.state.parameters);
  estimate::add_to(report.memory, "gradients", held.state.gradients);
  estimate::add_to(report.memory, "optimizer state", held.state.optimizer);
  estimate::add_to(report.memory, "buffers and batch", held.state.others);
  estimate::add_to(report.memory, "gathered for use", held.gathered);
  estimate::add_to(report.memory, "activations kept", plan->held_bytes);
  estimate::add_to(report.memory, "working set", plan->working_bytes);
  estimate::add_to(report.memory, "messages", held.messages);
  report.memory_bytes = estimate::sum(report.memory);

  const StageSeconds own = seconds_with(kind, ranges, held, talk, plan->backward_seconds);
  double forward = 0, inside = 0, reruns = 0;
  for (const UnitRange& range : ranges) {
    forward += plans(kind).forward_seconds(range.first, range.last);
  }
  for (const ChosenPlan& chosen : plan->chosen) {
    inside += chosen.units * chosen.plan.communication_seconds;
    reruns += chosen.units * chosen.plan.rerun_seconds;
  }
  const auto times = static_cast<double>(placement_.pipeline.micro_batches);
  const double busy = forward + plan->backward_seconds - inside;
  report.compute_seconds = times * busy;
  report.rerun_seconds = times * reruns;
  report.update_seconds = update_seconds(kind, held.state);
  report.communication_seconds =
      times * (own.forward + own.backward - busy) + own.tail - report.update_seconds;
  return report;
}

std::vector<RankReport> StageCosts::report(int stage, const UnitRanges& ranges) const {
  const int width = placement_.ranks_of_stage();
  std::vector<RankReport> reports;
  for (int kind : kinds_of(stage)) {
    RankReport report = report_of_kind(kind, stage, ranges);
    int begin = 0;
    for (int k = 0; k < kind; ++k) {
      begin += cluster_.kinds[static_cast<std::size_t>(k)].nodes * cluster_.devices_per_node;
    }
    const int end =
        begin + cluster_.kinds[static_cast<std::size_t>(kind)].nodes * cluster_.devices_per_node;
    report.first_rank = std::max(begin, stage * width);
    report.ranks = std::min(end, (stage + 1) * width) - report.first_rank;
    reports.push_back(std::move(report));
  }
  return reports;
}

}  // namespace lowtide::parallel
