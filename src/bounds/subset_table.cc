#include "bounds/subset_table.h"

#include <algorithm>
#include <bit>

#include "bounds/cost.h"

namespace lowtide::bounds {
namespace {

/// States without the bit form runs of `bit` neighbours: visit(first) for each run.
template <class Visit>
void for_each_run_without(std::size_t bit, std::size_t states, const Visit& visit) {
  for (std::size_t first = 0; first < states; first += 2 * bit) visit(first);
}

/// A rerun with one output that may be missing.
void run_one(std::size_t in, std::size_t out, double cost, std::span<double> least,
             std::span<std::uint16_t> change) {
  const std::size_t nearby = in & (out - 1);
  for_each_run_without(out, least.size(), [&](std::size_t first) {
    if ((first & in) != (in & ~nearby)) return;
    const double* without = &least[first];
    double* with = &least[first + out];
    std::uint16_t* ran = &change[first + out];
    for (std::size_t j = 0; j < out; ++j) {
      const bool better = (j & nearby) == nearby && without[j] + cost < with[j];
      ran[j] = better ? static_cast<std::uint16_t>(out) : std::uint16_t{0};
      with[j] = better ? without[j] + cost : with[j];
    }
  });
}

/// A rerun with several such outputs, some of which may be present.
void run_several(std::size_t in, std::size_t out, double cost, std::span<double> least,
                 std::span<std::uint16_t> change) {
  const std::size_t there = in | out;
  for (std::size_t to = there; to < least.size(); to = (to + 1) | there) {
    for (std::size_t lacking = out; lacking != 0; lacking = (lacking - 1) & out) {
      const double by_running = least[to & ~lacking] + cost;
      if (by_running >= least[to]) continue;
      least[to] = by_running;
      change[to] = static_cast<std::uint16_t>(lacking);
    }
  }
}

}  // namespace

void SubsetTable::reset(std::span<const double> bytes) {
  bytes_ = bytes;
  there_ = 0;
  bits_ = 0;
  base_ = 0;
  least_.assign(1, 0);
  records_.clear();
  changes_.clear();
}

/// The bits of the values that have one.
SubsetTable::State SubsetTable::state(Values values) const {
  State result = 0;
  for (int b = 0; b < bits_; ++b) {
    if (values >> layout_[b] & 1) result |= static_cast<State>(1u << b);
  }
  return result;
}

/// The values of a state in the record's layout.
SubsetTable::Values SubsetTable::values(const Record& record, State state) {
  Values result = 0;
  for (std::size_t b = 0; state >> b != 0; ++b) {
    if (state >> b & 1) result |= static_cast<Values>(1u << record.layout[b]);
  }
  return result;
}

/// Space for the change that leads to each state in a step with choices: none at first.
std::span<SubsetTable::State> SubsetTable::choices(Kind kind, Values taken) {
  records_.push_back({.kind = kind, .states = least_.size(), .taken = taken, .layout = layout_});
  changes_.resize(changes_.size() + least_.size());
  work_ += static_cast<double>(least_.size());
  return std::span(changes_).last(least_.size());
}

void SubsetTable::make(Values values) { there_ |= values; }

void SubsetTable::run(Values in, Values out, double cost) {
  const State made = state(out);
  const State read = state(in);
  const bool is_in_open = std::popcount(static_cast<Values>(in & ~there_)) == std::popcount(read);
  if (made == 0 || !is_in_open) return;
  (std::has_single_bit(made) ? run_one : run_several)(read, made, cost, least_,
                                                      choices(Kind::run, in));
}

void SubsetTable::drop(Values values) {
  for (int b = 0; b < bits_; ++b) {
    if (values >> layout_[b] & 1) drop_bit(static_cast<State>(1u << b));
  }
  const Values sure = values & there_;
  for (int v = 0; sure >> v != 0; ++v) {
    if (sure >> v & 1) open(v);
  }
}

/// From now on the value may be in memory or dropped.
void SubsetTable::open(int value) {
  const std::size_t states = least_.size();
  const auto opened = static_cast<Values>(1u << value);
  records_.push_back({.kind = Kind::open, .states = states, .taken = opened});
  least_.resize(2 * states);
  std::copy_n(least_.begin(), states, least_.begin() + static_cast<std::ptrdiff_t>(states));
  layout_[bits_++] = static_cast<std::int8_t>(value);
  there_ &= static_cast<Values>(~opened);
  work_ += static_cast<double>(states);
}

void SubsetTable::drop_bit(State bit) {
  const std::span<State> change = choices(Kind::drop, 0);
  for_each_run_without(bit, least_.size(), [&](std::size_t first) {
    double* without = &least_[first];
    const double* with = without + bit;
    State* dropped = &change[first];
    for (std::size_t j = 0; j < bit; ++j) {
      const bool better = with[j] < without[j];
      dropped[j] = better ? bit : State{0};
      without[j] = better ? with[j] : without[j];
    }
  });
}

/// A table of `states` states lost the bit, and the last bit took its place. Returns the earlier
/// state with the bit not set.
SubsetTable::State SubsetTable::put_back(State state, State bit, std::size_t states) {
  const auto last = static_cast<State>(states / 2);
  return (state & bit) != 0 ? static_cast<State>((state & ~bit) | last) : state;
}

/// Keeps states with the bit when its value is in memory, else those without.
void SubsetTable::remove(State bit, Kind kind) {
  const std::size_t states = least_.size();
  const auto gone = static_cast<Values>(1u << layout_[std::countr_zero(bit)]);
  records_.push_back({.kind = kind, .bit = bit, .states = states, .taken = gone});
  const State kept = kind == Kind::fix ? bit : State{0};
  for (std::size_t s = 0; s < states / 2; ++s) {
    least_[s] = least_[put_back(static_cast<State>(s), bit, states) | kept];
  }
  least_.resize(states / 2);
  layout_[std::countr_zero(bit)] = layout_[--bits_];
  work_ += static_cast<double>(states / 2);
}

void SubsetTable::need(Values values) {
  for (int b = bits_ - 1; b >= 0; --b) {
    const auto value = static_cast<Values>(1u << layout_[b]);
    if ((values & value) == 0) continue;
    remove(static_cast<State>(1u << b), Kind::fix);
    there_ |= value;
  }
}

void SubsetTable::close(Values values) {
  if (const Values sure = values & there_; sure != 0) {
    records_.push_back({.kind = Kind::end, .taken = sure});
    there_ &= static_cast<Values>(~sure);
  }
  for (int b = bits_ - 1; b >= 0; --b) {
    if ((values >> layout_[b] & 1) == 0) continue;
    const auto bit = static_cast<State>(1u << b);
    drop_bit(bit);
    remove(bit, Kind::end);
  }
}

void SubsetTable::pay(Values given, double price, int begin, int end) {
  records_.push_back({Kind::hold, 0, least_.size(), given, there_, layout_, begin, end});
  if (price <= 0) return;
  for (int v = 0; v < static_cast<int>(bytes_.size()); ++v) {
    if ((there_ & ~given) >> v & 1) base_ += price * bytes_[static_cast<std::size_t>(v)];
  }
  price_.resize(least_.size());
  price_[0] = 0;
  for (int b = 0; b < bits_; ++b) {
    const std::size_t half = std::size_t{1} << b;
    const int v = layout_[b];
    const double here = (given >> v & 1) != 0 ? 0 : price * bytes_[static_cast<std::size_t>(v)];
    for (std::size_t s = 0; s < half; ++s) price_[half + s] = price_[s] + here;
  }
  for (std::size_t s = 0; s < least_.size(); ++s) least_[s] += price_[s];
  work_ += static_cast<double>(2 * least_.size());
}

SubsetTable::State SubsetTable::cheapest() const {
  return static_cast<State>(std::ranges::min_element(least_) - least_.begin());
}

double SubsetTable::least() const { return base_ + least_[cheapest()]; }

}  // namespace lowtide::bounds
