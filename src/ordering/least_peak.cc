#include "ordering/least_peak.h"

#include <algorithm>
#include <utility>

#include "ordering/annealing.h"
#include "ordering/list_orders.h"
#include "ordering/peak_bound.h"
#include "ordering/window.h"

namespace lowtide::ordering {
namespace {

/// Of effort 1: work of least_window() for windows, and for the whole graph.
constexpr double kWindowsWork = 1e8;
constexpr double kWholeWork = 3e8;
/// The share of it for one window.
constexpr double kOneWindow = 0.1;
constexpr int kNarrow = 16;  // stages

/// Of effort 1: nodes of minimum cuts, for each kind of cut.
constexpr double kCutNodes = 2e7;
constexpr int kNeediest = 20;
constexpr int kBisections = 5;

/// Of effort 1: moves of annealing, in each round.
constexpr double kMoves = 1e5;
constexpr int kRounds = 3;
/// The first limit lies this share of the distance from the bound to the peak.
constexpr double kFirstLimit = 0.7;

class PeakSearch {
 public:
  PeakSearch(const remat::StageGraph& graph, const Precedence& precedence, const PeakEffort& effort,
             const Control& control)
      : graph_(graph), effort_(effort), control_(control), best_(graph, precedence, 0) {}

  LeastPeak run() {
    raise_bound();
    if (!is_done()) take_quick_orders();
    if (!is_done()) order_windows();
    if (!is_done()) raise_bound();
    while (!is_done() && narrow_down()) order_windows();
    for (int round = 0; round < kRounds && !is_done(); ++round) {
      if (anneal(round)) order_windows();
    }
    bisect_bound();
    return {best_.order(), best_.peak(), bound_};
  }

 private:
  bool is_done() const {
    return best_.peak() <= aim() || bound_ > enough() || control_.should_stop();
  }
  /// The search stops at this peak: a lower one is impossible, or not wanted.
  Bytes aim() const { return std::max(bound_, effort_.wanted.value_or(0)); }
  /// A bound above this proves that no order is good enough.
  Bytes enough() const { return effort_.wanted.value_or(best_.peak()); }
  std::int64_t work(double of_effort_one) const {
    return static_cast<std::int64_t>(effort_.work * of_effort_one);
  }
  std::int64_t cuts() const {
    return 1 + work(kCutNodes) / (graph_.num_stages() + graph_.num_values());
  }

  void count_work(std::int64_t work) const {
    constexpr double kNanoseconds = 5;
    control_.count(kNanoseconds * static_cast<double>(work));
  }
  void count_cuts(std::int64_t cuts) const {
    constexpr double kNanoseconds = 50;  // per node
    const int nodes = graph_.num_stages() + graph_.num_values();
    control_.count(kNanoseconds * nodes * static_cast<double>(cuts));
  }

  void raise_bound() {
    std::int64_t left = cuts();
    bound_ = std::max(bound_, peak_bound(best_, left, enough()));
    count_cuts(cuts() - left);
  }

  void take_quick_orders() {
    for (const auto make : {eager_order, least_growth_order, backward_order}) {
      take(make(graph_, best_.precedence()));
    }
  }

  /// Returns whether it is better.
  bool take(std::vector<int> order) {
    Schedule other(graph_, best_.precedence(), 0, std::move(order));
    if (other.peak() >= best_.peak()) return false;
    best_ = std::move(other);
    return true;
  }

  /// Reorders windows around the peak, wider ones while narrow ones do not help.
  void order_windows() {
    std::int64_t left = work(kWindowsWork);
    for (int width = kNarrow; !is_done() && left > 0;) {
      const auto peak = std::ranges::max_element(best_.in_use());
      const int at = static_cast<int>(peak - best_.in_use().begin());
      const int first = std::max(0, at - width / 2);
      const int last = std::min(best_.size(), at + width / 2 + 1);
      const std::int64_t most = std::min(left, work(kOneWindow * kWindowsWork));
      const WindowAnswer answer =
          least_window(best_, first, last,
                       {.at_least = aim(), .below = peak_of(best_, first, last), .work = most});
      left -= answer.work;
      count_work(answer.work);
      if (answer.stages) {
        best_.rearrange(first, *answer.stages);
        width = kNarrow;
      } else if (answer.work >= most || (first == 0 && last == best_.size())) {
        return;
      } else {
        width *= 2;
      }
    }
  }

  /// The shared precedence of all better orders shows that there is none, or leaves fewer to
  /// examine. Returns whether a better order was found.
  bool narrow_down() {
    const Bytes limit = best_.peak() - 1;
    std::int64_t left = cuts();
    const auto narrow = precedence_within(limit, best_, kNeediest, left);
    count_cuts(cuts() - left);
    const auto start = narrow ? eager_order(graph_, *narrow) : std::vector<int>();
    if (static_cast<int>(start.size()) < graph_.end()) {  // none comes before itself
      bound_ = best_.peak();
      return false;
    }
    Schedule other(graph_, *narrow, 0, start);
    const WindowAnswer answer =
        least_window(other, 0, other.size(),
                     {.at_least = aim(), .below = best_.peak(), .work = work(kWholeWork)});
    count_work(answer.work);
    if (answer.bound > aim()) bound_ = answer.bound;
    if (!answer.stages) return false;
    return take(*answer.stages);
  }

  /// Anneals to a limit below the best peak, closer in each round. Returns whether it helped.
  bool anneal(int round) {
    constexpr double kHot = 1, kCold = 1e-2;
    const double share = 1 - (1 - kFirstLimit) / (1 << round);
    const auto gap = static_cast<double>(best_.peak() - aim());
    Schedule other = best_;
    other.set_limit(aim() + static_cast<Bytes>(share * gap));
    const double mean = static_cast<double>(other.excess()) / other.size();
    Annealing(other, effort_.seed + static_cast<std::uint64_t>(round), control_)
        .run(work(kMoves), kHot * mean, kCold * mean);
    return take(other.order());
  }

  /// Raises the bound to the highest limit that no order meets.
  void bisect_bound() {
    for (int k = 0; k < kBisections && !is_done(); ++k) {
      const Bytes limit = bound_ + (best_.peak() - bound_) / 2;
      const std::int64_t most = cuts() / kBisections;
      std::int64_t left = most;
      const bool is_possible = precedence_within(limit, best_, kNeediest, left).has_value();
      count_cuts(most - left);
      if (is_possible) return;
      bound_ = limit + 1;
    }
  }

  const remat::StageGraph& graph_;
  const PeakEffort& effort_;
  const Control& control_;
  Schedule best_;
  Bytes bound_ = 0;
};

}  // namespace

LeastPeak least_peak(const remat::StageGraph& graph, const Precedence& precedence,
                     const PeakEffort& effort, const Control& control) {
  if (graph.end() == 0) return {{}, graph.resident_bytes(), graph.resident_bytes()};
  return PeakSearch(graph, precedence, effort, control).run();
}

}  // namespace lowtide::ordering
