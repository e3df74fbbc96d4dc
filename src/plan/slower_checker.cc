#include "plan/slower_checker.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include "plan/broken_rule.h"

namespace lowtide {
namespace {

void check_place(std::string_view place, Bytes taken, std::optional<Bytes> budget) {
  if (!budget || taken <= *budget) return;
  break_rule(Rule::place_over_budget,
             "the copies in the {} place of slower memory take {} bytes, and its budget is {}",
             place, taken, *budget);
}

}  // namespace

SlowerChecker::SlowerChecker(const Graph& graph, const Plan& plan)
    : graph_(graph),
      plan_(plan),
      copied_(graph.tensors().size()),
      moving_(graph.tensors().size()),
      last_copy_(last_copies()) {}

/// By storage: the last action that copies it or waits for it.
std::vector<std::int32_t> SlowerChecker::last_copies() const {
  std::vector<std::int32_t> last(graph_.tensors().size(), kNone);
  for (std::size_t at = 0; at < plan_.actions.size(); ++at) {
    const Action& action = plan_.actions[at];
    const bool copies =
        action.verb == Verb::offload || action.verb == Verb::prefetch || action.verb == Verb::wait;
    if (!copies || action.index < 0 || action.index >= graph_.num_tensors()) continue;
    last[graph_.storage(action.index)] = static_cast<std::int32_t>(at);
  }
  return last;
}

void SlowerChecker::add_resident(TensorId storage) {
  copied_[storage] = true;
  last_copy_[storage] = kNone;
  place_copy(storage);
}

void SlowerChecker::copy_out(TensorId storage, double now) {
  start(storage, Way::out, now);
  if (!copied_[storage]) place_copy(storage);
  copied_[storage] = true;
}

/// The copy waits for those before it in its lane.
void SlowerChecker::start(TensorId storage, Way way, double now) {
  if (is_moving(storage)) {
    break_rule(Rule::copy_under_way, "{} is copied while a copy of it is under way",
               text_of(graph_, storage));
  }
  const bool second = is_in_second_place(storage);
  Lanes lanes;
  if (plan_.slower) lanes = second ? plan_.slower->second->lanes : plan_.slower->lanes;
  const bool out = way == Way::out;
  LaneEnds& ends = second ? second_ends_ : first_ends_;
  double& free = out || lanes.shared ? ends.out : ends.in;
  const Lane& lane = out ? lanes.out : lanes.in;
  const double begin = std::max(now, free);
  free = begin + lane.latency + static_cast<double>(graph_.tensor(storage).bytes) * lane.per_byte;
  moving_[storage] = {way, free};
}

double SlowerChecker::end_copy(TensorId storage, std::int32_t at) {
  Moving& moving = moving_[storage];
  if (moving.way == Way::none) {
    break_rule(Rule::bad_wait, "no copy of {} is under way", text_of(graph_, storage));
  }
  moving.way = Way::none;
  if (last_copy_[storage] == at && plan_.slower && graph_.tensor(storage).bytes > 0) {
    taken_.give(copy_of(storage).offset);
  }
  return moving.end;
}

const Copy* SlowerChecker::find_copy(TensorId storage) const {
  const auto copy = std::ranges::find(plan_.slower->copies, storage, &Copy::storage);
  return copy == plan_.slower->copies.end() ? nullptr : &*copy;
}

const Copy& SlowerChecker::copy_of(TensorId storage) const {
  if (const Copy* copy = find_copy(storage)) return *copy;
  break_rule(Rule::no_address, "{} is offloaded and has no address in slower memory",
             text_of(graph_, storage));
}

void SlowerChecker::place_copy(TensorId storage) {
  const Bytes bytes = graph_.tensor(storage).bytes;
  if (!plan_.slower || bytes == 0) return;
  const Bytes offset = copy_of(storage).offset;
  if (offset < 0 || offset > std::numeric_limits<Bytes>::max() - bytes) {
    break_rule(Rule::negative_address, "the copy of {} has the address {}",
               text_of(graph_, storage), offset);
  }
  const std::optional<SecondPlace>& second = plan_.slower->second;
  if (second && offset < second->begin) {
    if (offset + bytes > second->begin) {
      break_rule(Rule::over_border,
                 "the copy of {} at [{}, {}) lies across the border of places at {}",
                 text_of(graph_, storage), offset, offset + bytes, second->begin);
    }
    first_top_ = std::max(first_top_, offset + bytes);
  }
  if (const auto other = taken_.take({false, storage, offset}, bytes)) {
    break_rule(Rule::overlap, "the copy of {} at [{}, {}) overlaps that of {} at [{}, {})",
               text_of(graph_, storage), offset, offset + bytes, text_of(graph_, other->what.index),
               other->what.offset, other->end);
  }
}

/// What has no bytes takes its time in the place that its address, if it has one, lies in.
bool SlowerChecker::is_in_second_place(TensorId storage) const {
  if (!plan_.slower || !plan_.slower->second) return false;
  const Copy* copy = find_copy(storage);
  return copy != nullptr && copy->offset >= plan_.slower->second->begin;
}

void SlowerChecker::check_claims() const {
  if (!plan_.slower) return;
  const SlowerMemory& slower = *plan_.slower;
  const Bytes begin = slower.second ? slower.second->begin : 0;
  const Bytes top = std::max(taken_.top(), begin);
  if (slower.bytes != top) {
    break_rule(Rule::wrong_claim,
               "the plan says that it takes {} bytes of slower memory, but it takes {}",
               slower.bytes, top);
  }
  if (first_top_ == begin) return;
  break_rule(
      Rule::wrong_claim,
      "the plan says that it takes {} bytes of the first place of slower memory, but it takes {}",
      begin, first_top_);
}

void SlowerChecker::check_budgets() const {
  if (!plan_.slower || !plan_.slower->second) return;
  const SecondPlace& second = *plan_.slower->second;
  check_place("first", first_top_, second.first_budget);
  check_place("second", plan_.slower->bytes - second.begin, second.budget);
}

}  // namespace lowtide
