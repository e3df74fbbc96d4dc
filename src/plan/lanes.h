#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/bytes.h"

namespace lowtide {

/// Copies in one direction between the memory of a plan and slower memory: one after another, each
/// in `latency + bytes * per_byte`, in the cost unit of the graph.
struct Lane {
  double latency = 0;
  double per_byte = 0;
  double time(Bytes bytes) const { return latency + static_cast<double>(bytes) * per_byte; }
  bool operator==(const Lane&) const = default;
};

/// Both directions. They work beside the ops of the plan.
struct Lanes {
  Lane out, in;
  bool shared = false;  ///< a copy in one direction waits for those in the other, too
  double time_of_both(Bytes bytes) const { return out.time(bytes) + in.time(bytes); }
  bool operator==(const Lanes&) const = default;
};

/// The places of slower memory: the second one, if there is one, is as a rule larger and slower.
enum class PlaceIndex : std::uint8_t { first, second };

/// The lanes of each place. Places do not hold each other up.
struct PlaceLanes {
  Lanes first, second = {};
  const Lanes& of(PlaceIndex place) const { return place == PlaceIndex::first ? first : second; }
  bool operator==(const PlaceLanes&) const = default;
};

/// One lane that is never slower than the two together, however copies are divided between them: a
/// copy takes it no longer than a weighted mean of the times of both lanes, with the weights by
/// which each has the same time per byte.
inline Lane together(const Lane& one, const Lane& other) {
  const double sum = one.per_byte + other.per_byte;
  const double weight = sum > 0 ? other.per_byte / sum : 0.5;  // of `one`
  return {std::min(weight * one.latency, (1 - weight) * other.latency), weight * one.per_byte};
}

/// Of a plan that copies through the lanes of both: no copies back take longer than through these.
inline Lanes together(const PlaceLanes& lanes) {
  return {together(lanes.first.out, lanes.second.out), together(lanes.first.in, lanes.second.in),
          lanes.first.shared && lanes.second.shared};
}

/// When ops and copies begin and end, if ops run in the order of the plan, and each copy starts
/// when the plan says so and its lane is free. The time of a plan is that of its last action.
class LaneClock {
 public:
  explicit LaneClock(const PlaceLanes& lanes) : lanes_(lanes) {}

  double now() const { return now_; }
  void run(double cost) { now_ += cost; }
  /// Starts a copy now; returns when it ends.
  double start_out(Bytes bytes, PlaceIndex place = PlaceIndex::first) {
    return start(lanes_.of(place).out.time(bytes), free_of(place).out);
  }
  double start_in(Bytes bytes, PlaceIndex place = PlaceIndex::first) {
    Free& free = free_of(place);
    return start(lanes_.of(place).in.time(bytes), lanes_.of(place).shared ? free.out : free.in);
  }
  /// When the place's lane in has ended all its copies so far.
  double in_free(PlaceIndex place) const {
    const Free& free = free_[index_of(place)];
    return lanes_.of(place).shared ? free.out : free.in;
  }
  void wait_until(double time) {
    if (time > now_) now_ = time;
  }

 private:
  /// When each lane of a place has ended all its copies so far.
  struct Free {
    double out = 0, in = 0;
  };

  static std::size_t index_of(PlaceIndex place) { return static_cast<std::size_t>(place); }
  Free& free_of(PlaceIndex place) { return free_[index_of(place)]; }

  double start(double time, double& free) const {
    free = (free > now_ ? free : now_) + time;
    return free;
  }

  PlaceLanes lanes_;
  double now_ = 0;
  std::array<Free, 2> free_;
};

}  // namespace lowtide
