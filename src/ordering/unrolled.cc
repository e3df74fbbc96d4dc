#include "ordering/unrolled.h"

#include <map>
#include <utility>

namespace lowtide::ordering {
namespace {

class Unrolling {
 public:
  Unrolling(const remat::StageGraph& stages, const Precedence& precedence)
      : stages_(stages),
        precedence_(precedence),
        latest_(stages.num_values(), kNone),
        run_(stages.end(), kNone),
        first_run_(stages.end(), kNone) {
    for (int i = 0; i < stages.end(); ++i) stage_of_[stages.stage(i).op] = i;
  }

  Unrolled run(std::span<const OpId> executions) {
    for (OpId op : executions) add(stage_of_.at(op));
    remat::Stage end{.deadline = size()};
    read(end, stages_.stage(stages_.end()));
    result_.push_back(std::move(end));
    keep_effects();
    return {remat::StageGraph(std::move(result_), std::move(values_), stages_.resident_bytes()),
            Precedence(std::move(before_))};
  }

 private:
  int size() const { return static_cast<int>(result_.size()); }

  void add(int stage) {
    const remat::Stage& original = stages_.stage(stage);
    remat::Stage executed{.op = original.op,
                          .cost = original.cost,
                          .workspace = original.workspace,
                          .deadline = size(),
                          .phase = original.phase};
    before_.emplace_back();
    if (run_[stage] != kNone) before_.back().push_back(run_[stage]);
    read(executed, original);
    make(executed, original);
    if (first_run_[stage] == kNone) {
      first_run_[stage] = size();
    } else {
      reruns_.emplace_back(size(), stage);
    }
    run_[stage] = size();
    result_.push_back(std::move(executed));
  }

  void read(remat::Stage& executed, const remat::Stage& original) {
    for (int v : original.inputs) {
      remat::StageValue& value = values_[latest_[v]];
      executed.inputs.push_back(latest_[v]);
      if (size() < static_cast<int>(before_.size())) before_.back().push_back(value.producer);
      value.readers.push_back(size());
    }
  }

  void make(remat::Stage& executed, const remat::Stage& original) {
    for (int v : original.outputs) {
      latest_[v] = static_cast<int>(values_.size());
      executed.outputs.push_back(latest_[v]);
      values_.push_back(
          {.tensor = stages_.value(v).tensor, .bytes = stages_.value(v).bytes, .producer = size()});
    }
    for (const auto& [output, input] : original.overlays) {
      executed.overlays.push_back({latest_[output], latest_[input]});
    }
  }

  /// First runs keep the graph's precedence, and reruns stay before all first runs that would
  /// change their inputs.
  void keep_effects() {
    for (int i = 0; i < stages_.end(); ++i) {
      for (int earlier : precedence_.before(i)) {
        before_[first_run_[i]].push_back(first_run_[earlier]);
      }
    }
    for (const auto& [rerun, stage] : reruns_) {
      for (int overwriter : precedence_.overwriters(stage)) {
        before_[first_run_[overwriter]].push_back(rerun);
      }
    }
  }

  const remat::StageGraph& stages_;
  const Precedence& precedence_;
  std::map<OpId, int> stage_of_;
  std::vector<int> latest_;                  // per value of the graph: what the latest run made
  std::vector<int> run_;                     // per stage: the latest run
  std::vector<int> first_run_;               // per stage
  std::vector<std::pair<int, int>> reruns_;  // with the stage that runs again
  std::vector<remat::Stage> result_;
  std::vector<remat::StageValue> values_;
  std::vector<std::vector<int>> before_;
};

}  // namespace

Unrolled unrolled(const remat::StageGraph& stages, const Precedence& precedence,
                  std::span<const OpId> executions) {
  return Unrolling(stages, precedence).run(executions);
}

}  // namespace lowtide::ordering
