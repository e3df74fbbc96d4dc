#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace lowtide::bounds {

/// The table of the dynamic program of bounds/cluster.h: the least cost at which each subset of a
/// few values can be in memory, while ops run, run again and drop values, step by step. Values that
/// are surely in memory need no bit of a state, so the size depends only on the number of values
/// that may have been dropped.
class SubsetTable {
 public:
  static constexpr int kMostValues = 14;
  using Values = std::uint16_t;  ///< a bit for each value

  /// Starts a new table with none of these values in memory. Sizes in bytes.
  void reset(std::span<const double> bytes);

  /// These values are in memory from now on.
  void make(Values values);
  /// A state with all of `in` may get all of `out` at this cost, unless one of `in` is closed or
  /// not made yet.
  void run(Values in, Values out, double cost);
  /// Each of these values that is in memory may be dropped.
  void drop(Values values);
  /// All of these must be in memory: removes states that dropped one and did not make it again.
  void need(Values values);
  /// No later step needs these values.
  void close(Values values);
  /// Pays the price per byte for values in memory over the stages [begin, end); `given` are free.
  void pay(Values given, double price, int begin, int end);

  /// The cost of the cheapest subset.
  double least() const;

  /// The values held in that subset's history, each only until its last use, in no particular
  /// order: visit(value, begin, end, is_given).
  template <class Visit>
  void trace(const Visit& visit) const;

  /// States visited since the table was created.
  double work() const { return work_; }

 private:
  using State = std::uint16_t;  // a bit for each value of the layout
  enum class Kind : std::uint8_t {
    run,   // changes_ has the values that the state lacked before
    drop,  // changes_ has the values that the state held before
    open,  // a last bit was added: its value may have been dropped
    fix,   // a bit was removed, its value in memory
    end,   // a bit was removed, its value dropped; without a bit: sure values were closed
    hold
  };
  using Layout = std::array<std::int8_t, kMostValues>;  // the value of each bit
  struct Record {
    Kind kind;
    State bit = 0;
    std::size_t states = 0;  // before it
    Values taken = 0;        // run: its inputs; end: removed values
    Values there = 0;        // sure values, apart from the state's
    Layout layout = {};
    int begin = 0;
    int end = 0;
  };

  State state(Values values) const;
  std::span<State> choices(Kind kind, Values taken);
  static Values values(const Record& record, State state);
  void open(int value);
  void drop_bit(State bit);
  void remove_bit(State bit);
  void remove(State bit, Kind kind);
  static State put_back(State state, State bit, std::size_t states);
  State cheapest() const;

  std::span<const double> bytes_;
  Values there_ = 0;  // values surely in memory
  Layout layout_{};
  int bits_ = 0;
  double base_ = 0;            // common to all states
  std::vector<double> least_;  // per state, on top of base_
  std::vector<double> price_;  // per state, during pay()
  std::vector<Record> records_;
  std::vector<State> changes_;
  double work_ = 0;
};

template <class Visit>
void SubsetTable::trace(const Visit& visit) const {
  State now = cheapest();
  Values wanted = 0;  // by later steps
  const State* change = changes_.data() + changes_.size();
  for (auto record = records_.rbegin(); record != records_.rend(); ++record) {
    switch (record->kind) {
      case Kind::run:
      case Kind::drop: {
        change -= record->states;
        const State changed = change[now];
        if (record->kind == Kind::run && changed != 0) wanted |= record->taken;
        if (record->kind == Kind::drop) wanted &= static_cast<Values>(~values(*record, changed));
        now ^= changed;
        break;
      }
      case Kind::open:
        if ((now & record->states) == 0) wanted &= static_cast<Values>(~record->taken);
        now &= static_cast<State>(record->states - 1);
        break;
      case Kind::fix: now = put_back(now, record->bit, record->states) | record->bit; break;
      case Kind::end:
        wanted &= static_cast<Values>(~record->taken);
        if (record->bit != 0) now = put_back(now, record->bit, record->states);
        break;
      case Kind::hold: {
        wanted |= record->taken;
        const auto held = static_cast<Values>((record->there | values(*record, now)) & wanted);
        for (int v = 0; held >> v != 0; ++v) {
          if (held >> v & 1) visit(v, record->begin, record->end, (record->taken >> v & 1) != 0);
        }
        break;
      }
    }
  }
}

}  // namespace lowtide::bounds
