#include "report/absence.h"

#include <algorithm>
#include <bit>

#include "plan/replay.h"

namespace lowtide::report {
namespace {

/// Finds the maximum of a list between two positions, by a table of all power-of-two lengths.
class Summits {
 public:
  explicit Summits(const std::vector<Bytes>& heights) : heights_(heights) {
    std::vector<std::int32_t>& first = tables_.emplace_back(heights.size());
    for (std::size_t i = 0; i < first.size(); ++i) first[i] = static_cast<std::int32_t>(i);
    for (std::size_t half = 1; 2 * half <= heights.size(); half *= 2) {
      const std::vector<std::int32_t>& shorter = tables_.back();
      std::vector<std::int32_t> longer(shorter.size() - half);
      for (std::size_t i = 0; i < longer.size(); ++i) {
        longer[i] = higher(shorter[i], shorter[i + half]);
      }
      tables_.push_back(std::move(longer));
    }
  }

  /// In [begin, end), which is not empty.
  std::int32_t in(std::int32_t begin, std::int32_t end) const {
    const int table = std::bit_width(static_cast<std::uint32_t>(end - begin)) - 1;
    const std::vector<std::int32_t>& starts = tables_[table];
    return higher(starts[begin], starts[end - (std::int32_t{1} << table)]);
  }

 private:
  std::int32_t higher(std::int32_t a, std::int32_t b) const {
    return heights_[b] > heights_[a] ? b : a;
  }

  const std::vector<Bytes>& heights_;
  std::vector<std::vector<std::int32_t>> tables_;
};

/// Follows the lives of values through a valid plan.
class Walk {
 public:
  Walk(const Graph& graph, const Plan& plan, const Replay& replayed)
      : graph_(graph),
        plan_(plan),
        memory_(replayed.memory),
        budget_(plan.budget_bytes.value_or(replayed.peak_bytes)),
        summits_(memory_),
        ended_(graph.num_tensors(), kNone),
        waiting_(graph.num_tensors()),
        worst_(graph.num_ops()) {}

  std::vector<std::optional<Absence>> run() {
    const auto count = static_cast<std::int32_t>(plan_.actions.size());
    for (std::int32_t at = 0; at < count; ++at) {
      const Action& action = plan_.actions[at];
      if (action.verb == Verb::run) {
        run(at, action);
      } else if (action.verb == Verb::free) {
        ended_[graph_.storage(action.index)] = at;
      }
    }
    return std::move(worst_);
  }

 private:
  void run(std::int32_t at, const Action& action) {
    const Op& op = graph_.op(action.index);
    if (!graph_.is_view_op(action.index)) {
      for (TensorId in : op.inputs) read(graph_.storage(in), action.index);
    }
    for (int position : action.in_place) {
      const auto pair = std::ranges::find(op.inplace, position, &InPlace::output);
      ended_[graph_.storage(op.inputs[pair->input])] = at;
    }
    for (TensorId out : op.outputs) {
      if (graph_.storage(out) == out) make(out, at);
    }
  }

  void make(TensorId value, std::int32_t at) {
    waiting_[value].reset();
    if (ended_[value] == kNone || graph_.tensor(value).bytes == 0) return;
    const std::int32_t tightest = summits_.in(ended_[value], at);
    waiting_[value] = {.value = value,
                       .bytes = graph_.tensor(value).bytes,
                       .last_used_in = op_at(ended_[value]),
                       .back_for = kNone,
                       .tightest = op_at(tightest),
                       .room = budget_ - memory_[tightest]};
  }

  /// Counts the absence only now: a value made again but never read was not missed.
  void read(TensorId value, OpId reader) {
    if (!waiting_[value]) return;
    waiting_[value]->back_for = reader;
    std::optional<Absence>& worst = worst_[graph_.producer(value)];
    const auto excess = [](const Absence& a) { return a.bytes - a.room; };
    if (!worst || excess(*waiting_[value]) > excess(*worst)) worst = waiting_[value];
    waiting_[value].reset();
  }

  /// The op that runs at the action, or the last one before it.
  OpId op_at(std::int32_t at) const {
    while (at > 0 && plan_.actions[at].verb != Verb::run) --at;
    return plan_.actions[at].index;
  }

  const Graph& graph_;
  const Plan& plan_;
  const std::vector<Bytes>& memory_;
  Bytes budget_;
  Summits summits_;
  std::vector<std::int32_t> ended_;              // per storage: the action that last ended it
  std::vector<std::optional<Absence>> waiting_;  // per storage: made again, not yet read
  std::vector<std::optional<Absence>> worst_;    // per op
};

}  // namespace

std::vector<std::optional<Absence>> absences(const Graph& graph, const Plan& plan) {
  const Replay replayed = replay(graph, plan);
  return Walk(graph, plan, replayed).run();
}

}  // namespace lowtide::report
