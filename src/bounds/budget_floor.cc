#include "bounds/budget_floor.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

#include "ordering/precedence.h"
#include "plan/replay.h"
#include "remat/stage_graph.h"

namespace lowtide::bounds {
namespace {

/// Values, ascending.
using Set = std::vector<int>;

/// Sets that can be searched for a subset or a superset of another set.
class SetList {
 public:
  void add(Set set) {
    signatures_.push_back(signature(set));
    sets_.push_back(std::move(set));
  }
  void clear() {
    signatures_.clear();
    sets_.clear();
  }

  /// The work of one search in the list, in steps of the main search.
  std::int64_t work() const { return static_cast<std::int64_t>(sets_.size()) / 1024; }

  bool has_subset_of(const Set& set) const {
    const std::uint64_t all = signature(set);
    for (std::size_t i = 0; i < sets_.size(); ++i) {
      if ((signatures_[i] & ~all) == 0 && std::ranges::includes(set, sets_[i])) return true;
    }
    return false;
  }
  bool has_superset_of(const Set& set) const {
    const std::uint64_t all = signature(set);
    for (std::size_t i = 0; i < sets_.size(); ++i) {
      if ((all & ~signatures_[i]) == 0 && std::ranges::includes(sets_[i], set)) return true;
    }
    return false;
  }

 private:
  static std::uint64_t signature(const Set& set) {
    std::uint64_t bits = 0;
    for (int v : set) bits |= std::uint64_t{1} << (v % 64);
    return bits;
  }

  std::vector<Set> sets_;
  std::vector<std::uint64_t> signatures_;
};

/// The needs of ops, and how sets of values change when a plan is walked backwards.
class Backwards {
 public:
  Backwards(const Graph& graph, const remat::StageGraph& stages)
      : stages_(stages), overwritable_(stages.num_stages()), inside_(stages.num_values()) {
    std::vector<int> value_of(graph.num_tensors(), kNone);
    for (int v = 0; v < stages.num_values(); ++v) value_of[stages.value(v).tensor] = v;
    for (int i = 0; i < stages.end(); ++i) {
      overwritable_[i] = overwritable(graph, graph.op(stages.stage(i).op), value_of);
    }
  }

  /// A step back over a run of a stage's op.
  struct Step {
    Bytes needs;        ///< bytes in use while the op runs
    Bytes bytes;        ///< of the set before it
    bool adds = false;  ///< whether that set has values that were not in the set after it
  };

  /// Starts from a set, for calls of step().
  void enter(const Set& set) {
    for (int v : inside_set_) inside_[v] = false;
    for (int v : set) inside_[v] = true;
    inside_set_ = set;
  }

  /// Back over a run of the stage's op, from the set of enter(), which has `bytes` bytes.
  Step step(Bytes bytes, int stage) const {
    Step result{stages_.resident_bytes() + stages_.stage(stage).workspace, bytes};
    Bytes made = 0;
    for (int v : stages_.stage(stage).outputs) {
      made += stages_.value(v).bytes;
      if (inside_[v]) result.bytes -= stages_.value(v).bytes;
    }
    for (int v : stages_.stage(stage).inputs) {
      if (inside_[v]) continue;
      result.bytes += stages_.value(v).bytes;
      result.adds = true;
    }
    result.needs += result.bytes + made;
    for (int v : overwritable_[stage]) result.needs -= inside_[v] ? 0 : stages_.value(v).bytes;
    return result;
  }

  /// The set before a run of the stage's op, from the set after it.
  Set before(const Set& set, int stage) const {
    Set outputs = stages_.stage(stage).outputs, inputs = stages_.stage(stage).inputs;
    std::ranges::sort(outputs);
    std::ranges::sort(inputs);
    Set rest, result;
    std::ranges::set_difference(set, outputs, std::back_inserter(rest));
    std::ranges::set_union(rest, inputs, std::back_inserter(result));
    return result;
  }

  /// The stages that make values of the set, each once.
  std::vector<int> makers(const Set& set) const {
    std::vector<int> makers;
    for (int v : set) makers.push_back(stages_.value(v).producer);
    std::ranges::sort(makers);
    const auto repeated = std::ranges::unique(makers);
    makers.erase(repeated.begin(), repeated.end());
    return makers;
  }

  Bytes bytes(const Set& set) const {
    Bytes sum = 0;
    for (int v : set) sum += stages_.value(v).bytes;
    return sum;
  }

 private:
  /// Inputs that may die when the op begins, since an output is written over them.
  static Set overwritable(const Graph& graph, const Op& op, const std::vector<int>& value_of) {
    Set sources;
    for (const InPlace& pair : op.inplace) {
      const TensorId source = graph.storage(op.inputs[pair.input]);
      const bool fits = graph.tensor(op.outputs[pair.output]).bytes <= graph.tensor(source).bytes;
      if (fits && !graph.is_resident(source)) sources.push_back(value_of[source]);
    }
    std::ranges::sort(sources);
    const auto repeated = std::ranges::unique(sources);
    sources.erase(repeated.begin(), repeated.end());
    return sources;
  }

  const remat::StageGraph& stages_;
  std::vector<Set> overwritable_;  // per stage
  std::vector<bool> inside_;       // per value: whether it is in the set of enter()
  Set inside_set_;
};

/// Values that must be in memory while a stage's op first runs, apart from its inputs and outputs.
class HeldThrough {
 public:
  HeldThrough(const Graph& graph, const remat::StageGraph& stages)
      : stages_(stages),
        precedence_(graph, stages, ordering::Orders::valid),
        last_(stages.num_stages()) {
    const std::vector<OpId> order = remat::stage_order(stages);
    for (int i = 0; i < stages.end(); ++i) {
      const auto expiry = std::ranges::lower_bound(order, graph.expires(order[i]));
      last_[i] = graph.op(order[i]).recomputable ? static_cast<int>(expiry - order.begin()) : i;
      some_expire_ = some_expire_ || last_[i] < stages.end();
    }
  }

  /// In steps of a search for sets.
  std::int64_t work() const { return some_expire_ ? 1 + stages_.num_stages() / 64 : 0; }

  /// Values whose makers have run and may not run again, and that are read later in every order.
  Set values(int stage) const {
    if (!some_expire_) return {};
    const std::vector<bool> before = precedence_.all_before(stage);
    const std::vector<bool> after = precedence_.all_after(stage);
    Set held;
    for (int v = 0; v < stages_.num_values(); ++v) {
      const remat::StageValue& value = stages_.value(v);
      const int last = last_[value.producer];
      const bool is_made =
          last != stages_.end() && value.producer != stage && (before[last] || last == stage);
      const auto is_later = [&](int reader) {
        return reader == stages_.end() || (after[reader] && reader != stage);
      };
      if (is_made && std::ranges::any_of(value.readers, is_later)) held.push_back(v);
    }
    return held;
  }

 private:
  const remat::StageGraph& stages_;
  ordering::Precedence precedence_;
  std::vector<int> last_;  // per stage: the first run that ends its op's reruns; the end if none
  bool some_expire_ = false;
};

/// Raises the bound from one moment to the next that occurs in all plans.
class WaysBack {
 public:
  WaysBack(const Graph& graph, const remat::StageGraph& stages)
      : backwards_(graph, stages), floor_(structural_floor(graph).bytes) {
    known_.add({});
  }

  Bytes bytes() const { return floor_; }

  /// Starts from the values `held` while an op first runs, apart from its inputs and outputs.
  /// Returns the number of visited sets.
  std::int64_t raise_from_run(int stage, const Set& held, std::int64_t work) {
    backwards_.enter(held);
    const Backwards::Step step = backwards_.step(backwards_.bytes(held), stage);
    floor_ = std::max(floor_, step.needs);
    return raise_from(backwards_.before(held, stage), work);
  }

  /// Starts from values that every plan has in memory at some moment.
  std::int64_t raise_from(const Set& there, std::int64_t work) {
    begin(there);
    std::int64_t looked = 0;
    while (looked < work && !open_.empty()) {
      const Open next = open_.top();
      open_.pop();
      floor_ = std::max(floor_, next.needs);
      Set set = set_of(next);
      looked += 1 + known_.work() + visited_.work();
      if (known_.has_superset_of(set)) {
        remember_way(next.parent, std::move(set));
        break;
      }
      if (visited_.has_subset_of(set)) continue;
      visited_.add(set);
      looked += expand(next, std::move(set));
    }
    return looked;
  }

 private:
  /// A visited set, and how it was reached.
  struct Visit {
    int parent;
    Set set;
  };
  /// A set to visit: the set before a run of `stage`, from the parent's set.
  struct Open {
    Bytes needs;  ///< the largest on the path from it to the start of the search
    Bytes bytes;
    int parent, stage;
    /// The least needs first, then the fewest bytes.
    bool operator<(const Open& other) const {
      return std::tie(needs, bytes) > std::tie(other.needs, other.bytes);
    }
  };

  void begin(const Set& there) {
    visits_.clear();
    visited_.clear();
    open_ = {};
    visits_.push_back({kNone, there});
    open_.push({floor_, backwards_.bytes(there), 0, kNone});
  }

  Set set_of(const Open& open) const {
    const Set& behind = visits_[open.parent].set;
    return open.stage == kNone ? behind : backwards_.before(behind, open.stage);
  }

  /// All steps back from a set. Or only one, if it just removes values and needs no more than the
  /// path so far: the remaining set is easier to make than any other.
  std::int64_t expand(const Open& from, Set set) {
    const std::vector<int> makers = backwards_.makers(set);
    backwards_.enter(set);
    const int here = static_cast<int>(visits_.size());
    visits_.push_back({from.parent, std::move(set)});
    std::vector<Open> steps;
    for (int stage : makers) {
      const Backwards::Step step = backwards_.step(from.bytes, stage);
      const Open next{std::max(from.needs, step.needs), step.bytes, here, stage};
      if (!step.adds && step.needs <= from.needs) {
        steps = {next};
        break;
      }
      steps.push_back(next);
    }
    for (const Open& next : steps) open_.push(next);
    return static_cast<std::int64_t>(makers.size());
  }

  /// All these sets can be made within the floor so far.
  void remember_way(int from, Set first) {
    known_.add(std::move(first));
    for (int visit = from; visit != kNone; visit = visits_[visit].parent) {
      known_.add(visits_[visit].set);
    }
  }

  Backwards backwards_;
  Bytes floor_;
  SetList known_;  // sets that some sequence can make within floor_
  // State of the search from one moment:
  std::vector<Visit> visits_;
  SetList visited_;
  std::priority_queue<Open> open_;
};

/// Stages, those whose ops need the most memory first.
std::vector<int> by_needs(const Graph& graph, const remat::StageGraph& stages) {
  const Backwards backwards(graph, stages);
  std::vector<std::pair<Bytes, int>> needs;
  for (int i = 0; i < stages.end(); ++i) needs.emplace_back(-backwards.step(0, i).needs, i);
  std::ranges::sort(needs);
  std::vector<int> order;
  for (const auto& [bytes, stage] : needs) order.push_back(stage);
  return order;
}

Set values_at_end(const remat::StageGraph& stages) {
  Set values = stages.stage(stages.end()).inputs;
  std::ranges::sort(values);
  return values;
}

}  // namespace

Bytes budget_floor(const Graph& graph, std::int64_t work) {
  const remat::StageGraph stages(graph);
  const HeldThrough held(graph, stages);
  WaysBack floor(graph, stages);
  const std::int64_t each = work / 16;  // for the search from one op
  std::int64_t left = work;
  for (int stage : by_needs(graph, stages)) {
    if (left < work / 2) break;
    left -= held.work() + floor.raise_from_run(stage, held.values(stage), each);
  }
  floor.raise_from(values_at_end(stages), left);
  return floor.bytes();
}

}  // namespace lowtide::bounds
