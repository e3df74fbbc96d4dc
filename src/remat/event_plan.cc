#include "remat/event_plan.h"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <map>
#include <utility>

namespace lowtide::remat {
namespace {

/// Position of the first element that is not below `item` in a short ascending list.
int position(const std::vector<int>& list, int item) {
  return static_cast<int>(std::ranges::lower_bound(list, item) - list.begin());
}

}  // namespace

EventPlan::EventPlan(const StageGraph& graph, Bytes limit)
    : EventPlan(graph, Timeline(graph.num_stages(), limit), nullptr) {}

EventPlan::EventPlan(const StageGraph& graph, const Prices& prices)
    : EventPlan(graph, Timeline(0, 0), &prices) {}

EventPlan::EventPlan(const StageGraph& graph, Timeline memory, const Prices* prices)
    : graph_(graph),
      prices_(prices),
      cost_(graph.required_cost()),
      runs_(graph.num_stages()),
      slots_(graph.num_stages(), {-1}),
      last_use_(graph.num_values()),
      stage_events_(graph.num_stages()),
      own_top_(graph.num_stages()),
      is_touched_(graph.num_stages()),
      memory_(std::move(memory)) {
  for (int i = 0; i < graph.num_stages(); ++i) {
    runs_[i] = {i};
    own_top_[i] = graph.stage(i).workspace;
    for (int v : graph.stage(i).outputs) own_top_[i] += graph.value(v).bytes;
    hold(i, i + 1, own_top_[i]);
  }
  for (int v = 0; v < graph.num_values(); ++v) {
    const StageValue& value = graph.value(v);
    last_use_[v] = {moment(value.last_reader(), value.last_reader())};
    hold(value.producer + 1, value.last_reader() + 1, value.bytes);
  }
  top_ = own_top_;
  hold(0, graph.num_stages(), graph.resident_bytes());
  for (int i = 0; i < graph.num_stages(); ++i) touch(i);
}

double EventPlan::take_work() {
  constexpr double kPerStep = 36;
  constexpr double kPerStage = 1.6;
  const double work =
      kPerStep * static_cast<double>(steps_) + kPerStage * static_cast<double>(memory_.work());
  return work - std::exchange(taken_work_, work);
}

bool EventPlan::contains(Event event) const {
  const std::vector<int>& runs = runs_[event.op];
  return event.stage != event.op && std::ranges::binary_search(runs, event.stage);
}

void EventPlan::add(Event event) {
  assert(graph_.may_rerun(event.op, event.stage) && !contains(event));
  std::vector<int>& runs = runs_[event.op];
  const int k = position(runs, event.stage);
  runs.insert(runs.begin() + k, event.stage);
  slots_[event.op].insert(slots_[event.op].begin() + k, static_cast<int>(events_.size()));
  events_.push_back(event);
  std::vector<int>& ops = stage_events_[event.stage];
  ops.insert(ops.begin() + position(ops, event.op), event.op);
  cost_ += graph_.stage(event.op).cost;
  touch(event.stage);
  split_outputs(event, k);
  read_inputs(event);
}

void EventPlan::remove(Event event) {
  assert(contains(event));
  std::vector<int>& runs = runs_[event.op];
  const int k = position(runs, event.stage);
  runs.erase(runs.begin() + k);
  const int slot = slots_[event.op][k];
  slots_[event.op].erase(slots_[event.op].begin() + k);
  if (slot + 1 != static_cast<int>(events_.size())) {
    const Event moved = events_[slot] = events_.back();
    slots_[moved.op][position(runs_[moved.op], moved.stage)] = slot;
  }
  events_.pop_back();
  std::vector<int>& ops = stage_events_[event.stage];
  ops.erase(ops.begin() + position(ops, event.op));
  cost_ -= graph_.stage(event.op).cost;
  touch(event.stage);
  join_outputs(event, k);
  unread_inputs(event);
}

/// From event.stage on, the new run k serves the readers of the run before it.
void EventPlan::split_outputs(Event event, int k) {
  for (int v : graph_.stage(event.op).outputs) {
    std::vector<Moment>& last = last_use_[v];
    const Moment old = last[k - 1];
    last.insert(last.begin() + k, std::max(old, moment(event.stage, event.op)));
    if (stage_of(old) < event.stage) continue;
    last[k - 1] = last_use_before(v, runs_[event.op][k - 1], event.stage);
    hold(stage_of(last[k - 1]) + 1, event.stage + 1, -graph_.value(v).bytes);
    touch(stage_of(last[k - 1]));
  }
}

/// The run before the removed run k serves the readers of run k.
void EventPlan::join_outputs(Event event, int k) {
  for (int v : graph_.stage(event.op).outputs) {
    std::vector<Moment>& last = last_use_[v];
    const Moment taken = last[k];
    last.erase(last.begin() + k);
    if (taken == moment(event.stage, event.op)) continue;  // nothing read it
    hold(stage_of(last[k - 1]) + 1, event.stage + 1, graph_.value(v).bytes);
    touch(stage_of(last[k - 1]));
    last[k - 1] = taken;
  }
}

void EventPlan::read_inputs(Event event) {
  const Moment now = moment(event.stage, event.op);
  for (int v : graph_.stage(event.op).inputs) {
    Moment& last = last_use_[v][instance_at(v, event.stage)];
    if (last >= now) continue;
    hold(stage_of(last) + 1, event.stage + 1, graph_.value(v).bytes);
    touch(stage_of(last));
    last = now;
  }
}

void EventPlan::unread_inputs(Event event) {
  const Moment now = moment(event.stage, event.op);
  for (int v : graph_.stage(event.op).inputs) {
    const int k = instance_at(v, event.stage);
    Moment& last = last_use_[v][k];
    if (last != now) continue;
    last = last_use_before(v, runs_[graph_.value(v).producer][k], event.stage + 1);
    hold(stage_of(last) + 1, event.stage + 1, -graph_.value(v).bytes);
    touch(stage_of(last));
  }
}

/// Of the instance made in `run_stage`, among uses in stages before `before_stage`.
EventPlan::Moment EventPlan::last_use_before(int value, int run_stage, int before_stage) const {
  const StageValue& v = graph_.value(value);
  Moment last = moment(run_stage, v.producer);
  steps_ += static_cast<std::int64_t>(v.readers.size());
  for (int reader : v.readers) {
    const std::vector<int>& runs = runs_[reader];
    const int k = position(runs, before_stage);
    if (k > 0) last = std::max(last, moment(runs[k - 1], reader));
  }
  return last;
}

int EventPlan::instance_at(int value, int stage) const {
  constexpr std::size_t kFew = 8;  // for which a scan is faster than halving
  const std::vector<int>& runs = runs_[graph_.value(value).producer];
  if (runs.size() > kFew) {
    return static_cast<int>(std::ranges::upper_bound(runs, stage) - runs.begin()) - 1;
  }
  int k = static_cast<int>(runs.size()) - 1;
  while (runs[k] > stage) --k;
  return k;
}

bool EventPlan::is_useless(Event event) const {
  const int k = position(runs_[event.op], event.stage);
  return std::ranges::all_of(graph_.stage(event.op).outputs, [&](int v) {
    return last_use_[v][k] == moment(event.stage, event.op);
  });
}

bool EventPlan::stretches(Event run, int input) const {
  const int k = instance_at(input, run.stage);
  return runs_[graph_.value(input).producer][k] < run.stage &&
         last_use_[input][k] == moment(run.stage, run.op);
}

int EventPlan::next_use(int value, int k, int from) const {
  const StageValue& v = graph_.value(value);
  const int last = last_stage(value, k);
  steps_ += static_cast<std::int64_t>(v.readers.size());
  int next = -1;
  for (int reader : v.readers) {
    const std::vector<int>& runs = runs_[reader];
    const int j = position(runs, from);
    if (j == static_cast<int>(runs.size()) || runs[j] > last) continue;
    if (next < 0 || runs[j] < next) next = runs[j];
  }
  return next;
}

/// Adds bytes in use over the stages [begin, end); removes them when negative.
void EventPlan::hold(int begin, int end, Bytes bytes) const {
  ++steps_;
  if (prices_ != nullptr) {
    held_price_ += static_cast<double>(bytes) * prices_->over(begin, end);
  } else {
    memory_.add(begin, end, bytes);
  }
}

/// Without reruns and writes in place, the bytes that a stage's op adds are independent of readers.
void EventPlan::touch(int stage) {
  const bool is_plain = stage_events_[stage].empty() && graph_.stage(stage).overlays.empty();
  if (is_touched_[stage] || (is_plain && top_[stage] == own_top_[stage])) return;
  is_touched_[stage] = true;
  touched_.push_back(stage);
}

void EventPlan::settle() const {
  for (int stage : touched_) {
    is_touched_[stage] = false;
    const Bytes top = top_of(stage);
    if (top == top_[stage]) continue;
    hold(stage, stage + 1, top - top_[stage]);
    top_[stage] = top;
  }
  touched_.clear();
}

Bytes EventPlan::top_of(int stage) const {
  Bytes live = 0;
  Bytes top = 0;
  for (int op : stage_events_[stage]) step(stage, op, live, top);
  return std::max(top, live + own_top_[stage] - overlaid(stage, stage));
}

/// Whether an instance of the value has its last use at that moment. These moments ascend with the
/// runs.
bool EventPlan::is_last_use(int value, Moment now) const {
  const std::vector<Moment>& last = last_use_[value];
  auto k = last.size() - 1;
  while (k > 0 && last[k] > now) --k;
  return last[k] == now;
}

/// Bytes of outputs that the op, running in that stage, writes over inputs that it is the last to
/// read.
Bytes EventPlan::overlaid(int stage, int op) const {
  Bytes bytes = 0;
  for (const auto& [output, input] : graph_.stage(op).overlays) {
    if (is_last_use(input, moment(stage, op))) bytes += graph_.value(output).bytes;
  }
  return bytes;
}

/// One rerun, relative to what is live at the start of its stage.
void EventPlan::step(int stage, int op, Bytes& live, Bytes& top) const {
  const Stage& executed = graph_.stage(op);
  steps_ += static_cast<std::int64_t>(executed.outputs.size() + executed.inputs.size());
  const Moment now = moment(stage, op);
  const auto ends_now = [&](int v) { return is_last_use(v, now); };
  for (int v : executed.outputs) live += graph_.value(v).bytes;
  top = std::max(top, live + executed.workspace - overlaid(stage, op));
  for (int v : executed.outputs) live -= ends_now(v) ? graph_.value(v).bytes : 0;
  for (int v : executed.inputs) live -= ends_now(v) ? graph_.value(v).bytes : 0;
}

void change_to(EventPlan& plan, std::vector<Event> events) {
  std::vector<Event> now = plan.events();
  std::ranges::sort(now);
  std::ranges::sort(events);
  std::vector<Event> gone;
  std::vector<Event> come;
  std::ranges::set_difference(now, events, std::back_inserter(gone));
  std::ranges::set_difference(events, now, std::back_inserter(come));
  for (Event event : gone) plan.remove(event);
  for (Event event : come) plan.add(event);
}

double cost_of(const StageGraph& graph, std::span<const Event> events) {
  double cost = graph.required_cost();
  for (Event event : events) cost += graph.stage(event.op).cost;
  return cost;
}

std::vector<OpId> executions_of(const StageGraph& graph, std::span<const Event> events) {
  std::vector<Event> reruns(events.begin(), events.end());
  std::ranges::sort(reruns);
  std::vector<OpId> order;
  order.reserve(reruns.size() + static_cast<std::size_t>(graph.num_stages()));
  auto rerun = reruns.begin();
  for (int t = 0; t < graph.num_stages(); ++t) {
    for (; rerun != reruns.end() && rerun->stage == t; ++rerun) {
      order.push_back(graph.stage(rerun->op).op);
    }
    if (t != graph.end()) order.push_back(graph.stage(t).op);
  }
  return order;
}

std::vector<Event> events_of(const StageGraph& graph, std::span<const OpId> executions) {
  std::map<OpId, int> stage_of;
  for (int t = 0; t < graph.end(); ++t) stage_of[graph.stage(t).op] = t;
  std::vector<Event> events;
  int now = 0;
  for (OpId op : executions) {
    const int stage = stage_of.at(op);
    if (stage < now) {
      events.push_back({now, stage});
    } else {
      ++now;
    }
  }
  std::ranges::sort(events);
  const auto repeated = std::ranges::unique(events);
  events.erase(repeated.begin(), repeated.end());
  return events;
}

}  // namespace lowtide::remat
