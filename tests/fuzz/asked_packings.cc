#include <algorithm>
#include <numeric>

#include "base/budget.h"
#include "fuzz/asked.h"
#include "layout/plan_buffers.h"
#include "layout/warm_start.h"
#include "packing/allocators/pool.h"
#include "packing/allocators/requests.h"
#include "packing/packing_check.h"
#include "packing/solve.h"
#include "packing/sweep.h"
#include "plan/verify.h"
#include "planner/transfer.h"

namespace lowtide::testing {
namespace {

using packing::Buffer;

constexpr std::int64_t kWorkOfPacking = 300'000;

class Packer {
 public:
  Packer(std::vector<Buffer> buffers, Chance& chance, PlanAnswers& answers)
      : buffers_(std::move(buffers)), chance_(chance), answers_(answers) {}

  void pack_by_search() {
    const Bytes unit = Bytes{1} << chance_.below(10);
    packing::PackingGoal goal{.alignment = unit, .work = kWorkOfPacking};
    const auto lowest = packing::solve_packing(buffers_, goal, Control());
    check(rounded(buffers_, unit), lowest.packing, "the search");
    answers_.check(lowest.lower_bound <= lowest.packing.height, "a bound above a packing");
    goal.capacity = chance_.between(0, lowest.packing.height);
    const auto within = packing::solve_packing(buffers_, goal, Control());
    check(rounded(buffers_, unit), within.packing, "the search within a capacity");
    answers_.check(within.lower_bound <= lowest.packing.height, "a bound above another packing");
    answers_.check(lowest.lower_bound <= within.packing.height, "a bound above another packing");
  }

  void pack_by_sweeps() {
    packing::Order by_begin(buffers_.size());
    std::iota(by_begin.begin(), by_begin.end(), 0);
    std::ranges::stable_sort(by_begin, {}, [&](std::int32_t i) { return buffers_[i].begin; });
    for (packing::Fit fit : {packing::Fit::first, packing::Fit::best, packing::Fit::next}) {
      check(buffers_, packing::sweep(buffers_, by_begin, fit), "a sweep");
    }
  }

  void pack_by_pools() {
    const Bytes unit = Bytes{1} << chance_.below(10);
    for (const auto& pool : packing::allocators::pool_strategies()) {
      const packing::allocators::Pooled pooled = pool.serve(buffers_, unit);
      std::vector<Buffer> blocks = buffers_;
      for (std::size_t i = 0; i < blocks.size(); ++i) {
        answers_.check(pooled.blocks[i] >= blocks[i].bytes, "{}: a block too small", pool.name);
        blocks[i].bytes = pooled.blocks[i];
        blocks[i].alignment = 1;
      }
      check(blocks, {pooled.offsets, pooled.height}, pool.name);
    }
  }

 private:
  static std::vector<Buffer> rounded(std::vector<Buffer> buffers, Bytes unit) {
    for (Buffer& buffer : buffers) buffer.bytes = align_up(buffer.bytes, unit);
    return buffers;
  }

  void check(const std::vector<Buffer>& buffers, const packing::Packing& packed,
             std::string_view by) {
    ++answers_.tally().packings;
    const auto holds = is_packing(buffers, packed, 1);
    answers_.check(static_cast<bool>(holds), "{}: no packing: {}", by, holds.message());
    answers_.check(packed.height >= packing::allocators::most_alive(buffers),
                   "{}: lower than what is there at one time", by);
  }

  const std::vector<Buffer> buffers_;
  Chance& chance_;
  PlanAnswers& answers_;
};

/// The addresses of one plan, as far as they do for another.
void place_from_known(const Graph& graph, const Plan& known, Plan plan, PlanAnswers& answers) {
  const Bytes unit = graph.executable() ? graph.alignment() : 1;
  const Bytes capacity = plan.layout->arena_bytes - graph.resident_bytes();
  plan.layout = layout::WarmStart(graph, known)
                    .layout_of(plan, {unit, capacity, kWorkOfPacking}, Control())
                    .layout;
  if (!plan.layout) return;
  ++answers.tally().packings;
  const auto violation = verify(graph, plan);
  answers.check(!violation, "addresses from a known plan: {}", violation ? violation->message : "");
}

/// The decisions of a plan, for a larger batch.
void transfer_to_larger(const Graph& graph, const Plan& plan, PlanAnswers& answers) {
  GraphData data = graph.data();
  for (Tensor& tensor : data.tensors) tensor.bytes *= 3;
  const Graph larger(std::move(data));
  const auto there = planner::transfer(larger, graph, plan, kUnlimitedBytes);
  answers.check(there.has_value(), "a plan that is not transferred");
  const auto violation = verify(larger, *there, kUnlimitedBytes);
  answers.check(!violation, "a transferred plan: {}", violation ? violation->message : "");
}

}  // namespace

void ask_packings(const Graph& graph, Chance& chance, PlanAnswers& answers) {
  std::vector<const Plan*> plans;
  for (const Plan& plan : answers.plans()) {
    if (!plan.slower) plans.push_back(&plan);
  }
  if (plans.empty()) return;
  const Plan& plan = *chance.pick(plans);
  Packer packer(layout::buffers_of(graph, plan).buffers, chance, answers);
  packer.pack_by_search();
  packer.pack_by_sweeps();
  packer.pack_by_pools();
  place_from_known(graph, plan, *chance.pick(plans), answers);
  if (graph.resident_bytes() < kUnlimitedBytes / 1000) transfer_to_larger(graph, plan, answers);
}

}  // namespace lowtide::testing
