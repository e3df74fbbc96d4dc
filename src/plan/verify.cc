#include "plan/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>
#include <vector>

namespace lowtide {
namespace {

/// Unwinds the stack to verify(), its only catcher.
struct Broken {
  Rule rule;
  std::string message;
};

template <typename... Args>
[[noreturn]] void fail(Rule rule, fmt::format_string<Args...> format, Args&&... args) {
  throw Broken{rule, fmt::format(format, std::forward<Args>(args)...)};
}

/// The used bytes of the arena.
class Arena {
 public:
  struct Span {
    Placement what;
    Bytes end;
  };

  Bytes top() const { return top_; }

  /// Takes the bytes if all are free and returns nothing; else returns the span that overlaps.
  std::optional<Span> take(const Placement& what, Bytes bytes) {
    const Bytes end = what.offset + bytes;
    const auto next = taken_.lower_bound(what.offset);
    if (next != taken_.end() && next->first < end) return next->second;
    if (next != taken_.begin() && std::prev(next)->second.end > what.offset) {
      return std::prev(next)->second;
    }
    taken_.emplace(what.offset, Span{what, end});
    top_ = std::max(top_, end);
    return std::nullopt;
  }

  void give(Bytes begin) { taken_.erase(begin); }

 private:
  std::map<Bytes, Span> taken_;  // by where it begins
  Bytes top_ = 0;
};

/// Follows a plan action by action and throws Broken at the first rule that it breaks.
class Checker {
 public:
  Checker(const Graph& graph, const Plan& plan)
      : graph_(graph),
        plan_(plan),
        live_(graph.tensors().size()),
        is_away_(graph.tensors().size()),
        is_old_(graph.tensors().size()),
        copied_(graph.tensors().size()),
        moving_(graph.tensors().size()),
        last_copy_(last_copies()),
        address_(graph.tensors().size(), kNoAddress),
        runs_(graph.ops().size()),
        writers_(graph.tensors().size()) {
    for (TensorId id = 0; id < graph.num_tensors(); ++id) {
      if (graph.tensor(id).kind != Kind::resident) continue;
      live_[id] = true;
      residents_ += graph.tensor(id).bytes;
    }
    if (plan.slower) {
      for (TensorId id : plan.slower->residents) send_away(id);
    }
    for (OpId id = 0; id < graph.num_ops(); ++id) {
      const Op& op = graph.op(id);
      for (int position : op.mutates) writers_[base(op.inputs[position])].push_back(id);
    }
    in_use_ = peak_ = residents_;
    if (plan.layout && plan.layout->placements.size() != plan.actions.size()) {
      fail(Rule::bad_index, "the layout has {} lists of addresses for {} actions",
           plan.layout->placements.size(), plan.actions.size());
    }
    if (plan.layout && !std::ranges::is_sorted(plan.layout->borders)) {
      fail(Rule::over_border, "the borders between sections are not in ascending order");
    }
  }

  void act(std::int32_t at) {
    at_ = at;
    const Action& action = plan_.actions[at];
    const bool is_run = action.verb == Verb::run;
    const int count = is_run ? graph_.num_ops() : graph_.num_tensors();
    if (action.index < 0 || action.index >= count) {
      fail(Rule::bad_index, "there is no {} {}; the graph has {}", is_run ? "op" : "tensor",
           action.index, count);
    }
    switch (action.verb) {
      case Verb::run: run(action); break;
      case Verb::free: drop(base(action.index), "freed"); break;
      case Verb::offload: offload(base(action.index)); break;
      case Verb::prefetch: prefetch(base(action.index)); break;
      case Verb::wait: wait(base(action.index)); break;
    }
  }

  void check_end() const {
    for (TensorId id = 0; id < graph_.num_tensors(); ++id) {
      if (moving_[id].way != Way::none) {
        fail(Rule::copy_under_way, "the copy of {} is still under way at the end", text(id));
      }
      if (is_away_[id] && live_[id]) {
        fail(Rule::not_away, "{} is in memory at the end, and in slower memory at the start",
             text(id));
      }
    }
    for (OpId id = 0; id < graph_.num_ops(); ++id) {
      const Op& op = graph_.op(id);
      const bool has_effect = !op.recomputable || !op.mutates.empty();
      if (has_effect && runs_[id] == 0) {
        fail(Rule::missing_effect, "{} has an effect and never runs", op_text(id));
      }
    }
    for (TensorId id : graph_.outputs()) {
      if (!live_[id]) {
        fail(Rule::output_not_live, "the graph's output {} is not live at the end", text(id));
      }
    }
  }

  void check_budget(std::optional<Bytes> budget) const {
    if (!budget) return;
    if (peak_ > *budget) {
      fail(Rule::over_budget, "the peak of {} bytes exceeds the budget of {}", peak_, *budget);
    }
    if (plan_.layout && arena_bytes() > *budget) {
      fail(Rule::arena_over_budget, "the arena of {} bytes exceeds the budget of {}", arena_bytes(),
           *budget);
    }
  }

  /// After the claims, as the size of the first place is one.
  void check_budgets_of_places() const {
    if (!plan_.slower || !plan_.slower->second) return;
    const SecondPlace& second = *plan_.slower->second;
    check_place("first", first_top_, second.first_budget);
    check_place("second", plan_.slower->bytes - second.begin, second.budget);
  }

  void check_claims() const {
    if (!near(plan_.cost, now_)) {
      fail(Rule::wrong_claim, "the plan says that it costs {}, but it costs {}", plan_.cost, now_);
    }
    if (plan_.slower) check_slower_claims(*plan_.slower);
    if (plan_.peak_bytes != peak_) {
      fail(Rule::wrong_claim, "the plan says that its peak is {} bytes, but it is {}",
           plan_.peak_bytes, peak_);
    }
    if (plan_.layout && plan_.layout->arena_bytes != arena_bytes()) {
      fail(Rule::wrong_claim, "the plan says that its arena takes {} bytes, but it takes {}",
           plan_.layout->arena_bytes, arena_bytes());
    }
    if (plan_.lower_bound && !near(*plan_.lower_bound, now_) && *plan_.lower_bound > now_) {
      fail(Rule::wrong_claim, "the plan's lower bound of {} is above its cost of {}",
           *plan_.lower_bound, now_);
    }
  }

 private:
  static constexpr Bytes kNoAddress = -1;

  void check_slower_claims(const SlowerMemory& slower) const {
    const Bytes begin = slower.second ? slower.second->begin : 0;
    const Bytes top = std::max(slower_.top(), begin);
    if (slower.bytes != top) {
      fail(Rule::wrong_claim,
           "the plan says that it takes {} bytes of slower memory, but it takes {}", slower.bytes,
           top);
    }
    if (first_top_ == begin) return;
    fail(Rule::wrong_claim,
         "the plan says that it takes {} bytes of the first place of slower memory, but it takes "
         "{}",
         begin, first_top_);
  }

  static void check_place(std::string_view place, Bytes taken, std::optional<Bytes> budget) {
    if (!budget || taken <= *budget) return;
    fail(Rule::place_over_budget,
         "the copies in the {} place of slower memory take {} bytes, and its budget is {}", place,
         taken, *budget);
  }

  enum class Way : std::uint8_t { none, out, in };
  /// A copy that is under way, and when it ends.
  struct Moving {
    Way way = Way::none;
    double end = 0;
  };
  /// When each lane of a place has ended all its copies so far.
  struct LaneEnds {
    double out = 0, in = 0;
  };

  /// By storage: the last action that copies it or waits for it.
  std::vector<std::int32_t> last_copies() const {
    std::vector<std::int32_t> last(graph_.tensors().size(), kNone);
    for (std::size_t at = 0; at < plan_.actions.size(); ++at) {
      const Action& action = plan_.actions[at];
      const bool copies = action.verb == Verb::offload || action.verb == Verb::prefetch ||
                          action.verb == Verb::wait;
      if (!copies || action.index < 0 || action.index >= graph_.num_tensors()) continue;
      last[base(action.index)] = static_cast<std::int32_t>(at);
    }
    return last;
  }

  /// Costs are sums of many terms in any order, so they differ by rounding.
  static bool near(double a, double b) {
    return std::abs(a - b) <= 1e-9 * std::max(std::abs(a), std::abs(b));
  }

  TensorId base(TensorId id) const {
    const TensorId of = graph_.tensor(id).alias_of;
    return of == kNone ? id : of;
  }
  std::string text(TensorId id) const {
    return fmt::format("tensor {} (\"{}\")", id, graph_.tensor(id).name);
  }
  std::string op_text(OpId id) const {
    return fmt::format("op {} (\"{}\")", id, graph_.op(id).name);
  }
  std::string text(const Placement& what) const {
    return what.workspace ? "the workspace of " + op_text(what.index) : text(what.index);
  }
  Bytes arena_bytes() const { return residents_ + arena_.top(); }

  void run(const Action& action) {
    const OpId id = action.index;
    const Op& op = graph_.op(id);
    for (TensorId in : op.inputs) {
      if (!live_[in]) {
        fail(Rule::input_not_live, "{} needs {}, which is not live", op_text(id), text(in));
      }
      if (moving_[base(in)].way == Way::in) {
        fail(Rule::copy_under_way, "{} needs {}, whose copy has not arrived", op_text(id),
             text(in));
      }
    }
    if (!graph_.is_view_op(id)) check_fresh(id);
    if (++runs_[id] > 1 && !op.recomputable) {
      fail(Rule::runs_twice, "{} may run only once", op_text(id));
    }
    if (runs_[id] == 1) write_residents(op, id);
    const std::vector<TensorId> overwritten = overwrite(action);
    for (TensorId out : op.outputs) make(id, out);
    for (TensorId out : op.outputs) {
      if (base(out) == out && !std::ranges::count(overwritten, out)) place(out);
    }
    peak_ = std::max(peak_, in_use_ + op.workspace_bytes);
    now_ += op.cost;
    if (plan_.layout && op.workspace_bytes > 0) {
      const Bytes address = find_address(true, id);
      take({true, id, address}, op.workspace_bytes);
      arena_.give(address);
    }
  }

  /// Takes a resident out of memory before the first action. Its copy lasts for the whole step.
  void send_away(TensorId id) {
    const bool may = id >= 0 && id < graph_.num_tensors() && live_[id];
    if (!may) {
      fail(Rule::bad_resident,
           "tensor {} should lie in slower memory, but is no resident, or is "
           "listed twice",
           id);
    }
    live_[id] = false;
    is_away_[id] = copied_[id] = true;
    residents_ -= graph_.tensor(id).bytes;
    last_copy_[id] = kNone;
    place_copy(id);
  }

  /// By its first run; a later one writes nothing.
  void write_residents(const Op& op, OpId id) {
    for (int position : op.mutates) {
      const TensorId written = base(op.inputs[position]);
      if (moving_[written].way != Way::none) {
        fail(Rule::copy_under_way, "{} writes {} while a copy of it is under way", op_text(id),
             text(written));
      }
      is_old_[written] = is_away_[written];
    }
  }

  /// An op's inputs must contain the writes of all earlier ops, and none of later ops. A view op
  /// reads no bytes.
  void check_fresh(OpId id) const {
    for (TensorId in : graph_.op(id).inputs) {
      for (OpId writer : writers_[base(in)]) {
        if (writer > id && runs_[writer] > 0) {
          fail(Rule::stale_input, "{} reads {} after {} overwrote it", op_text(id), text(in),
               op_text(writer));
        }
        if (writer < id && runs_[writer] == 0) {
          fail(Rule::stale_input, "{} reads {} before {} wrote it", op_text(id), text(in),
               op_text(writer));
        }
      }
    }
  }

  /// Lets the outputs written in place take over storage and address; returns them.
  std::vector<TensorId> overwrite(const Action& action) {
    std::vector<TensorId> targets;
    std::vector<std::pair<TensorId, Bytes>> moves;  // target, address
    for (int position : action.in_place) {
      const auto [target, source] = in_place_pair(action.index, position);
      if (std::ranges::count(targets, target) || !live_[source] || !is_value(source)) {
        fail(Rule::bad_in_place, "{} cannot write {} over {}, which is resident or written already",
             op_text(action.index), text(target), text(source));
      }
      const Bytes address = address_[source];
      drop(source, "overwritten");
      targets.push_back(target);
      moves.emplace_back(target, address);
    }
    for (const auto& [target, address] : moves) {
      if (address == kNoAddress || graph_.tensor(target).bytes == 0) continue;
      address_[target] = address;
      take({false, target, address}, graph_.tensor(target).bytes);
    }
    return targets;
  }

  std::pair<TensorId, TensorId> in_place_pair(OpId id, int position) const {
    const Op& op = graph_.op(id);
    for (const InPlace& pair : op.inplace) {
      if (pair.output != position) continue;
      const TensorId target = op.outputs[pair.output], source = base(op.inputs[pair.input]);
      if (graph_.tensor(target).bytes <= graph_.tensor(source).bytes) return {target, source};
      fail(Rule::bad_in_place, "{} cannot write {} over {}, which is smaller", op_text(id),
           text(target), text(source));
    }
    fail(Rule::bad_in_place, "{} may not write its output {} in place", op_text(id), position);
  }

  bool is_value(TensorId storage) const { return graph_.tensor(storage).kind == Kind::value; }
  bool may_move(TensorId storage) const { return is_value(storage) || is_away_[storage]; }

  void make(OpId id, TensorId out) {
    if (live_[out]) {
      fail(Rule::output_already_live, "{} runs while its output {} is live", op_text(id),
           text(out));
    }
    const TensorId storage = base(out);
    if (storage != out && !live_[storage]) {
      fail(Rule::not_live, "{} makes {}, a view of {}, which is not live", op_text(id), text(out),
           text(storage));
    }
    live_[out] = true;
    if (storage == out) in_use_ += graph_.tensor(out).bytes;
  }

  void place(TensorId storage) {
    const Bytes bytes = graph_.tensor(storage).bytes;
    if (!plan_.layout || bytes == 0) return;
    address_[storage] = find_address(false, storage);
    take({false, storage, address_[storage]}, bytes);
  }

  void take(const Placement& what, Bytes bytes) {
    if (what.offset < 0 || what.offset > std::numeric_limits<Bytes>::max() - residents_ - bytes) {
      fail(Rule::negative_address, "{} has the address {}", text(what), what.offset);
    }
    const std::vector<Bytes>& borders = plan_.layout->borders;
    const auto border = std::ranges::upper_bound(borders, what.offset);
    if (border != borders.end() && *border < what.offset + bytes) {
      fail(Rule::over_border, "{} at [{}, {}) lies across the border at {}", text(what),
           what.offset, what.offset + bytes, *border);
    }
    const std::optional<Arena::Span> other = arena_.take(what, bytes);
    if (!other) return;
    fail(Rule::overlap, "{} at [{}, {}) overlaps {} at [{}, {})", text(what), what.offset,
         what.offset + bytes, text(other->what), other->what.offset, other->end);
  }

  Bytes find_address(bool workspace, std::int32_t index) const {
    const std::vector<Placement>& born = plan_.layout->placements[at_];
    const auto found = std::find_if(born.rbegin(), born.rend(), [&](const Placement& p) {
      return p.workspace == workspace && p.index == index;
    });
    if (found != born.rend()) return found->offset;
    fail(Rule::no_address, "{} has no address", text(Placement{workspace, index}));
  }

  void drop(TensorId storage, std::string_view verb) {
    if (!may_move(storage) || !live_[storage]) {
      fail(Rule::not_live, "{} is {}, but it is {}", text(storage), verb,
           may_move(storage) ? "not live" : "resident");
    }
    if (moving_[storage].way != Way::none) {
      fail(Rule::copy_under_way, "{} is {} while a copy of it is under way", text(storage), verb);
    }
    if (is_old_[storage]) {
      fail(Rule::old_copy, "{} is {}, and what was written to it is in no copy", text(storage),
           verb);
    }
    live_[storage] = false;
    for (TensorId view : graph_.views(storage)) live_[view] = false;
    in_use_ -= graph_.tensor(storage).bytes;
    if (address_[storage] != kNoAddress) arena_.give(address_[storage]);
    address_[storage] = kNoAddress;
  }

  void offload(TensorId storage) {
    if (!may_move(storage) || !live_[storage]) {
      fail(Rule::not_live, "{} is offloaded, but it is {}", text(storage),
           may_move(storage) ? "not live" : "resident");
    }
    start(storage, Way::out);
    is_old_[storage] = false;
    if (!copied_[storage]) place_copy(storage);
    copied_[storage] = true;
  }

  /// The copy waits for those before it in its lane.
  void start(TensorId storage, Way way) {
    if (moving_[storage].way != Way::none) {
      fail(Rule::copy_under_way, "{} is copied while a copy of it is under way", text(storage));
    }
    const bool second = is_in_second_place(storage);
    Lanes lanes;
    if (plan_.slower) lanes = second ? plan_.slower->second->lanes : plan_.slower->lanes;
    const bool out = way == Way::out;
    LaneEnds& ends = second ? second_ends_ : first_ends_;
    double& free = out || lanes.shared ? ends.out : ends.in;
    const Lane& lane = out ? lanes.out : lanes.in;
    const double begin = std::max(now_, free);
    free = begin + lane.latency + static_cast<double>(graph_.tensor(storage).bytes) * lane.per_byte;
    moving_[storage] = {way, free};
  }

  void wait(TensorId storage) {
    Moving& moving = moving_[storage];
    if (moving.way == Way::none) {
      fail(Rule::bad_wait, "no copy of {} is under way", text(storage));
    }
    now_ = std::max(now_, moving.end);
    moving.way = Way::none;
    if (last_copy_[storage] == at_ && plan_.slower && graph_.tensor(storage).bytes > 0) {
      slower_.give(copy_of(storage).offset);
    }
  }

  const Copy& copy_of(TensorId storage) const {
    const auto copy = std::ranges::find(plan_.slower->copies, storage, &Copy::storage);
    if (copy != plan_.slower->copies.end()) return *copy;
    fail(Rule::no_address, "{} is offloaded and has no address in slower memory", text(storage));
  }

  void place_copy(TensorId storage) {
    const Bytes bytes = graph_.tensor(storage).bytes;
    if (!plan_.slower || bytes == 0) return;
    const Bytes offset = copy_of(storage).offset;
    if (offset < 0 || offset > std::numeric_limits<Bytes>::max() - bytes) {
      fail(Rule::negative_address, "the copy of {} has the address {}", text(storage), offset);
    }
    const std::optional<SecondPlace>& second = plan_.slower->second;
    if (second && offset < second->begin) {
      if (offset + bytes > second->begin) {
        fail(Rule::over_border, "the copy of {} at [{}, {}) lies across the border of places at {}",
             text(storage), offset, offset + bytes, second->begin);
      }
      first_top_ = std::max(first_top_, offset + bytes);
    }
    if (const auto other = slower_.take({false, storage, offset}, bytes)) {
      fail(Rule::overlap, "the copy of {} at [{}, {}) overlaps that of {} at [{}, {})",
           text(storage), offset, offset + bytes, text(other->what), other->what.offset,
           other->end);
    }
  }

  /// What has no bytes takes its time in the place that its address, if it has one, lies in.
  bool is_in_second_place(TensorId storage) const {
    if (!plan_.slower || !plan_.slower->second) return false;
    const auto copy = std::ranges::find(plan_.slower->copies, storage, &Copy::storage);
    return copy != plan_.slower->copies.end() && copy->offset >= plan_.slower->second->begin;
  }

  void prefetch(TensorId storage) {
    if (!copied_[storage] || live_[storage]) {
      fail(Rule::bad_prefetch, "{} is live or was never offloaded", text(storage));
    }
    live_[storage] = true;
    in_use_ += graph_.tensor(storage).bytes;
    peak_ = std::max(peak_, in_use_);
    place(storage);
    start(storage, Way::in);
  }

  const Graph& graph_;
  const Plan& plan_;
  std::int32_t at_ = 0;
  std::vector<bool> live_;
  std::vector<bool> is_away_;            // a resident of slower memory
  std::vector<bool> is_old_;             // and its copy there lacks what an op wrote
  std::vector<bool> copied_;             // has a copy in slower memory
  std::vector<Moving> moving_;           // per storage
  std::vector<std::int32_t> last_copy_;  // per storage
  std::vector<Bytes> address_;           // per storage
  std::vector<int> runs_;
  std::vector<std::vector<OpId>> writers_;  // per storage: ops that overwrite it
  Arena arena_;
  Arena slower_;         // the copies
  Bytes first_top_ = 0;  // of those in the first of two places
  Bytes residents_ = 0, in_use_ = 0, peak_ = 0;
  double now_ = 0;                     // when the last action ended
  LaneEnds first_ends_, second_ends_;  // of the places of slower memory
};

}  // namespace

std::string_view name(Rule rule) {
  switch (rule) {
    case Rule::bad_index: return "bad_index";
    case Rule::input_not_live: return "input_not_live";
    case Rule::output_already_live: return "output_already_live";
    case Rule::runs_twice: return "runs_twice";
    case Rule::stale_input: return "stale_input";
    case Rule::bad_in_place: return "bad_in_place";
    case Rule::not_live: return "not_live";
    case Rule::bad_prefetch: return "bad_prefetch";
    case Rule::bad_wait: return "bad_wait";
    case Rule::copy_under_way: return "copy_under_way";
    case Rule::bad_resident: return "bad_resident";
    case Rule::old_copy: return "old_copy";
    case Rule::not_away: return "not_away";
    case Rule::missing_effect: return "missing_effect";
    case Rule::output_not_live: return "output_not_live";
    case Rule::over_budget: return "over_budget";
    case Rule::no_address: return "no_address";
    case Rule::negative_address: return "negative_address";
    case Rule::overlap: return "overlap";
    case Rule::over_border: return "over_border";
    case Rule::arena_over_budget: return "arena_over_budget";
    case Rule::place_over_budget: return "place_over_budget";
    case Rule::wrong_claim: return "wrong_claim";
  }
  return "unknown";
}

std::optional<Violation> verify(const Graph& graph, const Plan& plan, std::optional<Bytes> budget) {
  std::int32_t at = kNone;
  try {
    Checker checker(graph, plan);
    for (at = 0; at < static_cast<std::int32_t>(plan.actions.size()); ++at) checker.act(at);
    at = kNone;
    checker.check_end();
    checker.check_budget(budget ? budget : plan.budget_bytes);
    checker.check_claims();
    checker.check_budgets_of_places();
    return std::nullopt;
  } catch (const Broken& broken) {
    return Violation{broken.rule, at, broken.message};
  }
}

}  // namespace lowtide
