#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace lowtide::bounds {

/// The least cost at which each subset of a few values can be in memory, as ops run, run again and
/// drop values, one step after the other: the table of the dynamic program of
/// bounds/cluster.h. Values that are surely there take no bit of its states; so the table
/// is as large as there are values that may have been dropped, not values at all.
class SubsetTable {
 public:
  static constexpr int kMostValues = 14;
  using Values = std::uint16_t;  ///< a bit for each value

  /// Begins anew, with none of these values there. Sizes in bytes.
  void reset(std::span<const double> bytes);

  /// These are there from now on.
  void make(Values values);
  /// Whoever has all of `in` may have all of `out` at this cost, as long as none of `in` is closed
  /// or not made yet.
  void run(Values in, Values out, double cost);
  /// Each of these that is there may be dropped.
  void drop(Values values);
  /// All of these are there: who dropped one and did not make it again is out.
  void need(Values values);
  /// They are of no use any more.
  void close(Values values);
  /// What is there is held over the stages [begin, end), at this price per byte but for `given`.
  void pay(Values given, double price, int begin, int end);

  /// Of the cheapest subset.
  double least() const;

  /// What that subset's history held, each value only until something last took it, in no
  /// particular order: visit(value, begin, end, is_given).
  template <class Visit>
  void trace(const Visit& visit) const;

  /// States looked at since the table exists.
  double work() const { return work_; }

 private:
  using State = std::uint16_t;  // a bit for each value of the layout
  enum class Kind : std::uint8_t {
    run,   // what the state lacked before is in changes_
    drop,  // what the state had besides is in changes_
    open,  // the last bit came: its value may have been dropped
    fix,   // a bit went, its value there
    end,   // a bit went, its value dropped; or with no bit, values that were there
    hold
  };
  using Layout = std::array<std::int8_t, kMostValues>;  // which value each bit stands for
  struct Record {
    Kind kind;
    State bit = 0;
    std::size_t states = 0;  // before it
    Values taken = 0;        // of a run, what it reads; of an end, what went
    Values there = 0;        // beside the state's
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
  Values there_ = 0;  // surely
  Layout layout_{};
  int bits_ = 0;
  double base_ = 0;           // cost of all states
  std::vector<double> least_;  // per state, beyond base_
  std::vector<double> price_;  // per state, while it pays
  std::vector<Record> records_;
  std::vector<State> changes_;
  double work_ = 0;
};

template <class Visit>
void SubsetTable::trace(const Visit& visit) const {
  State now = cheapest();
  Values wanted = 0;  // by what comes later
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
