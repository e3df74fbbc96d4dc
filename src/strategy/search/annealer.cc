#include "strategy/search/annealer.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace lowtide::strategy::search {
namespace {

constexpr int kTries = 12;

/// How often several outputs made from one value are dropped, or held, together.
constexpr double kTogether = 0.2;

/// A descent aims at a peak that is lower by one part of so many.
constexpr Bytes kStepsDown = 256;

/// Moves at one temperature, between looks at the clock.
constexpr int kBatch = 256;

/// Of the cooling, by moves or by the time limit, whichever is further ahead.
double share_of_cooling(const Cooling& cooling, std::int64_t moves, const Control& control) {
  const double of_moves = static_cast<double>(moves) / static_cast<double>(cooling.moves);
  return std::max(of_moves, control.used_share());
}

double temperature_at(const Cooling& cooling, double share) {
  if (cooling.first_temperature <= 0) return 0;
  const double ratio = cooling.last_temperature / cooling.first_temperature;
  return cooling.first_temperature * std::pow(ratio, share);
}

}  // namespace

double typical_price(const remat::StageGraph& graph) {
  double byte_stages = 1;
  for (const remat::StageValue& value : graph.values()) {
    byte_stages += static_cast<double>(value.bytes) * (value.last_reader() - value.producer);
  }
  return graph.required_cost() / byte_stages;
}

Annealer::Annealer(const remat::StageGraph& graph, Bytes limit, double byte_price,
                   std::uint64_t seed)
    : graph_(graph),
      limit_(limit),
      plan_(graph, limit),
      moves_(graph, plan_),
      choices_(remat::movable_values(graph)),
      byte_price_(byte_price),
      random_(seed) {
  Bytes largest = 0;
  for (const remat::StageValue& value : graph.values()) largest = std::max(largest, value.bytes);
  step_bytes_ = 1 + largest / 100;
}

double Annealer::uniform() { return static_cast<double>(random_() >> 11) * 0x1p-53; }

Bytes Annealer::bytes_over() const {
  const remat::Timeline& memory = plan_.memory();
  return memory.excess() + step_bytes_ * memory.stages_over();
}

double Annealer::rating() const {
  return plan_.cost() + byte_price_ * static_cast<double>(bytes_over());
}

void Annealer::load(const std::vector<remat::Event>& events) {
  while (!plan_.events().empty()) plan_.remove(plan_.events().back());
  for (remat::Event event : events) plan_.add(event);
  for (auto event = events.rbegin(); event != events.rend(); ++event) moves_.prune(*event);
  moves_.keep();
  over_ = bytes_over();
  remember();
}

/// Gives the event's op its own run. Each input that would have to be held only for it is made
/// again too, with probability `deep`.
void Annealer::drop(remat::Event event, double deep) {
  moves_.drop(event, most_cost_, [&](remat::Event, int) { return chance(deep); });
}

/// For a drop: the probability that an input held for no other use is made again too. At times 1,
/// which is needed where memory is so short that almost nothing can be held.
double Annealer::depth() {
  const int kind = pick(10);
  return kind < 2 ? 0.3 : kind < 8 ? 0.9 : 1;
}

/// Gives a random use of a random value its own run of the value's op.
void Annealer::drop_random() {
  const remat::StageValue& value = graph_.value(choices_[pick(static_cast<int>(choices_.size()))]);
  const int reader = value.readers[pick(static_cast<int>(value.readers.size()))];
  const std::vector<int>& runs = plan_.runs(reader);
  const int stage = runs[pick(static_cast<int>(runs.size()))];
  drop({stage, value.producer}, depth());
}

void Annealer::hold_random() {
  const auto& events = plan_.events();
  if (events.empty()) return;
  const remat::Event event = events[pick(static_cast<int>(events.size()))];
  if (chance(kTogether)) {
    moves_.hold_with_readers(event);
  } else {
    moves_.hold(event);
  }
}

/// Moves an event to another stage nearby.
void Annealer::shift_random() {
  constexpr int kFar = 8;
  const auto& events = plan_.events();
  if (events.empty()) return;
  const remat::Event event = events[pick(static_cast<int>(events.size()))];
  const remat::Event moved{event.stage + pick(2 * kFar + 1) - kFar, event.op};
  if (moved.stage == event.stage || moved.stage >= graph_.num_stages()) return;
  if (!graph_.may_rerun(moved.op, moved.stage) || plan_.contains(moved)) return;
  moves_.hold(event);
  drop(moved, 0.5);
}

/// Drops outputs of a few readers of the value that are held over the stage.
bool Annealer::drop_together(int value, int stage) {
  constexpr int kMost = 8;
  const std::vector<int>& readers = graph_.value(value).readers;
  const int count = static_cast<int>(readers.size());
  if (count < 2) return false;
  const bool all = count <= kMost && chance(0.5);
  const int first = all ? 0 : pick(count - 1);
  const int end = all ? count : first + 2 + pick(std::min(count - first - 1, kMost - 1));
  std::vector<remat::Event> events;
  for (int reader : std::span(readers).subspan(first, end - first)) {
    for (int v : graph_.stage(reader).outputs) {
      const int use = remat::next_use_behind(graph_, plan_, v, stage);
      if (use != kNone) events.push_back({use, reader});
    }
  }
  if (events.size() < 2) return false;
  std::ranges::sort(events);
  const double deep = depth();
  for (std::size_t i = 0; i < events.size() && !is_too_dear(); ++i) drop(events[i], deep);
  return true;
}

/// Drops a value that is held over the stage until its next use.
void Annealer::relieve(int stage) {
  const bool together = chance(kTogether);
  for (int i = 0; i < kTries; ++i) {
    const int v = choices_[pick(static_cast<int>(choices_.size()))];
    if (together && drop_together(v, stage)) return;
    const int use = remat::next_use_behind(graph_, plan_, v, stage);
    if (use == kNone) continue;
    return drop({use, graph_.value(v).producer}, depth());
  }
}

/// Holds one value instead of another.
void Annealer::exchange_random() {
  hold_random();
  for (int i = 0; i < 2 && !is_too_dear() && !plan_.fits(); ++i) {
    relieve(plan_.memory().over_after(pick(graph_.num_stages())));
  }
}

void Annealer::change_something() {
  if (over_ > 0 && chance(0.4)) {
    return relieve(plan_.memory().over_after(pick(graph_.num_stages())));
  }
  const int kind = pick(10);
  if (kind < 3) return drop_random();
  if (kind < 6) return hold_random();
  if (kind < 8) return exchange_random();
  shift_random();
}

/// Makes one move, and undoes it unless the Metropolis rule accepts it.
void Annealer::move(double temperature) {
  const double before = plan_.cost() + byte_price_ * static_cast<double>(over_);
  const double most = before - temperature * std::log1p(-uniform());
  most_cost_ = most;
  change_something();
  if (!is_too_dear()) {
    const Bytes over = bytes_over();
    if (plan_.cost() + byte_price_ * static_cast<double>(over) <= most) {
      over_ = over;
      if (over == 0 && moves_.any()) remember();
      moves_.keep();
      return;
    }
  }
  moves_.undo();
}

void Annealer::remember() {
  if (plan_.memory().limit() != limit_) return;  // during descend()
  if (!plan_.fits() || (best_ && plan_.cost() >= best_cost_)) return;
  best_ = plan_.events();
  best_cost_ = plan_.cost();
}

/// Keeps the current plan if it is the cheapest since `others_` had `before` entries.
void Annealer::sample(std::size_t before) {
  if (over_ > 0 || plan_.memory().limit() != limit_) return;
  if (others_.size() == before) {
    others_.push_back({plan_.cost(), plan_.events()});
  } else if (plan_.cost() < others_.back().cost) {
    others_.back() = {plan_.cost(), plan_.events()};
  }
}

/// Keeps the search near the limit: sometimes within it, sometimes above.
void Annealer::adapt_weight(int moves, int fitting) {
  if (fitting * 5 < moves) byte_price_ *= 1.1;
  if (fitting * 5 > moves * 3) byte_price_ /= 1.1;
}

std::int64_t Annealer::run(const Cooling& cooling, const Control& control) {
  constexpr int kParts = 6;  // each gives one of others()
  int part = 0;
  std::size_t before = others_.size();
  if (choices_.empty()) return 0;
  std::int64_t done = 0;
  for (; done < cooling.moves && !control.should_stop(); done += kBatch) {
    const double share = share_of_cooling(cooling, done, control);
    const double temperature = temperature_at(cooling, share);
    plan_.take_work();
    int fitting = 0;
    for (int i = 0; i < kBatch; ++i) {
      move(temperature);
      fitting += over_ == 0;
    }
    adapt_weight(kBatch, fitting);
    control.count(plan_.take_work());
    if (share >= (part + 1.0) / kParts) {
      ++part;
      before = others_.size();
    }
    sample(before);
  }
  return done;
}

void Annealer::descend(const Cooling& cooling, const Control& control) {
  std::vector<remat::Event> lowest = plan_.events();
  Bytes peak = plan_.memory().peak();
  const auto aim_lower = [&] {
    plan_.set_limit(peak - 1 - peak / kStepsDown);
    over_ = bytes_over();
  };
  aim_lower();
  plan_.take_work();
  std::int64_t idle = 0;
  while (peak > limit_ && idle < cooling.moves && !choices_.empty() && !control.should_stop()) {
    const double share = share_of_cooling(cooling, idle, control);
    const double temperature = temperature_at(cooling, share);
    for (int i = 0; i < kBatch && peak > limit_; ++i, ++idle) {
      move(temperature);
      if (plan_.memory().peak() >= peak) continue;
      peak = plan_.memory().peak();
      lowest = plan_.events();
      aim_lower();
      idle = 0;
    }
    control.count(plan_.take_work());
  }
  plan_.set_limit(limit_);
  load(lowest);
}

}  // namespace lowtide::strategy::search
