#include "ordering/peak_bound.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "ordering/before_cut.h"

namespace lowtide::ordering {
namespace {

/// Bytes held in the end.
Bytes at_end(const remat::StageGraph& graph) {
  Bytes sum = graph.resident_bytes();
  for (int v : graph.stage(graph.end()).inputs) sum += graph.value(v).bytes;
  return sum;
}

/// The stages of a schedule, sorted by bytes in use while they run, largest first.
std::vector<int> by_use(const Schedule& schedule) {
  std::vector<int> stages = schedule.order();
  std::ranges::stable_sort(stages, std::ranges::greater(),
                           [&](int stage) { return schedule.in_use()[schedule.position(stage)]; });
  return stages;
}

/// Finds the precedence that all orders within a limit share.
class Within {
 public:
  Within(Bytes limit, const Schedule& schedule, std::int64_t& cuts)
      : limit_(limit), graph_(schedule.graph()), precedence_(schedule.precedence()), cuts_(cuts) {}

  std::optional<Precedence> run(std::vector<int> stages, int neediest) {
    constexpr int kRanked = 4;  // times as many
    if (static_cast<int>(stages.size()) > kRanked * neediest) stages.resize(kRanked * neediest);
    bool is_new = true;
    while (is_new && cuts_ > 0) {
      is_new = false;
      rank(stages);
      if (is_refuted_) return std::nullopt;
      const int count = std::min(neediest, static_cast<int>(stages.size()));
      for (int k = 0; k < count && cuts_ > 0; ++k) {
        is_new = look_at(stages[k]) || is_new;
        if (is_refuted_) return std::nullopt;
      }
    }
    return precedence_;
  }

 private:
  /// Sorts stages by their least need.
  void rank(std::vector<int>& stages) {
    std::vector<std::pair<Bytes, int>> needs;
    for (int stage : stages) {
      needs.emplace_back(-cut(stage).least(), stage);
      if (is_refuted_) return;
    }
    std::ranges::sort(needs);
    for (std::size_t k = 0; k < stages.size(); ++k) stages[k] = needs[k].second;
  }

  BeforeCut cut(int stage) {
    --cuts_;
    BeforeCut result(graph_, precedence_, stage);
    is_refuted_ = is_refuted_ || result.least() > limit_;
    return result;
  }

  /// Returns whether it found something new.
  bool look_at(int stage) {
    const BeforeCut here = cut(stage);
    const std::vector<bool> known_before = precedence_.all_before(stage);
    const std::vector<bool> known_after = precedence_.all_after(stage);
    std::vector<int> earlier, later;
    for (int other = 0; other < graph_.end() && !is_refuted_; ++other) {
      if (other == stage || known_before[other] || known_after[other]) continue;
      --cuts_;
      if (here.has_run(other)) {
        if (here.least_before(other) > limit_) earlier.push_back(other);
      } else if (here.least_after(other) > limit_) {
        later.push_back(other);
      }
    }
    if (is_refuted_ || (earlier.empty() && later.empty())) return false;
    add(stage, earlier, later);
    return true;
  }

  void add(int stage, const std::vector<int>& earlier, const std::vector<int>& later) {
    std::vector<std::vector<int>> before;
    for (int i = 0; i < graph_.end(); ++i) before.push_back(precedence_.before(i));
    before[stage].insert(before[stage].end(), earlier.begin(), earlier.end());
    for (int other : later) before[other].push_back(stage);
    precedence_ = Precedence(std::move(before));
  }

  Bytes limit_;
  const remat::StageGraph& graph_;
  Precedence precedence_;
  std::int64_t& cuts_;
  bool is_refuted_ = false;
};

}  // namespace

Bytes peak_bound(const Schedule& schedule, std::int64_t& cuts, Bytes enough) {
  Bytes bound = at_end(schedule.graph());
  for (int stage : by_use(schedule)) {
    const Bytes needs = schedule.in_use()[schedule.position(stage)];
    if (needs <= bound || bound > enough || cuts <= 0) break;
    --cuts;
    const BeforeCut cut(schedule.graph(), schedule.precedence(), stage);
    bound = std::max(bound, cut.least());
  }
  return bound;
}

std::optional<Precedence> precedence_within(Bytes limit, const Schedule& schedule, int neediest,
                                            std::int64_t& cuts) {
  if (at_end(schedule.graph()) > limit) return std::nullopt;
  return Within(limit, schedule, cuts).run(by_use(schedule), neediest);
}

}  // namespace lowtide::ordering
