#pragma once

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

/// When ops and copies begin and end, if ops run in the order of the plan, and each copy starts
/// when the plan says so and its lane is free. The time of a plan is that of its last action.
class LaneClock {
 public:
  explicit LaneClock(const Lanes& lanes) : lanes_(lanes) {}

  double now() const { return now_; }
  void run(double cost) { now_ += cost; }
  /// Starts a copy now; returns when it ends.
  double start_out(Bytes bytes) { return start(lanes_.out.time(bytes), out_free_); }
  double start_in(Bytes bytes) {
    return start(lanes_.in.time(bytes), lanes_.shared ? out_free_ : in_free_);
  }
  /// When the lane in has ended all its copies so far.
  double in_free() const { return lanes_.shared ? out_free_ : in_free_; }
  void wait_until(double time) {
    if (time > now_) now_ = time;
  }

 private:
  double start(double time, double& free) const {
    free = (free > now_ ? free : now_) + time;
    return free;
  }

  Lanes lanes_;
  double now_ = 0;
  double out_free_ = 0, in_free_ = 0;  ///< when the lane has ended all its copies so far
};

}  // namespace lowtide
