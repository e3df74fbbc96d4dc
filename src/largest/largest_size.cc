#include "largest/largest_size.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <map>
#include <utility>

#include "base/error.h"
#include "bounds/budget_floor.h"
#include "cost/roofline.h"
#include "largest/plan_size.h"
#include "planner/does_not_fit.h"

namespace lowtide::largest {
namespace {

class Finder {
 public:
  Finder(const Question& question, Steps& steps)
      : question_(question), steps_(steps), left_seconds_(question.seconds) {}

  Largest run() {
    try {
      search();
    } catch (const StoppedError&) {
      if (!best_ && !known_) throw;
    }
    found_.stopped = Control::stop_requested();
    if (found_.stopped && !best_) remember_estimates();
    if (!best_) refuse();
    return answer();
  }

 private:
  void search() {
    const std::optional<std::int64_t> possible = largest_possible();
    if (!possible) {
      plan_for_refusal();
      return;
    }
    steps_.expect(*possible);
    Sizes sizes = question_.sizes;
    sizes.last = *possible;
    search_estimated(sizes);
    if (steps_.are_measured()) search_measured(sizes);
  }

  /// Measures nothing: where no plan can fit the budget, ops alone may be too large to run.
  void plan_for_refusal() {
    const std::int64_t size = question_.sizes.smallest();
    const Graph graph = steps_.bare(size);
    SizeSearch search(question_.sizes, question_.budget_bytes);
    settle(search, plan(size, graph, Evidence::bound, search), graph);
  }

  /// Nothing when no size is.
  std::optional<std::int64_t> largest_possible() {
    SizeSearch search(question_.sizes, question_.budget_bytes, question_.sizes.smallest());
    while (const std::optional<std::int64_t> size = search.next()) {
      const Graph graph = steps_.bare(*size);
      stop_if_asked();
      const Bytes floor = bounds::budget_floor(graph) + steps_.reserved_bytes(graph);
      search.add(*size, floor <= question_.budget_bytes);
      search.add_need(*size, floor);
      floors_[*size] = floor;
    }
    if (search.too_large()) note_too_large(*search.too_large(), floors_.at(*search.too_large()));
    if (search.largest()) {
      say(fmt::format("no {} above {} can fit", question_.what, *search.largest()));
    }
    return search.largest();
  }

  void note_too_large(std::int64_t size, Bytes floor) {
    Trial trial;
    trial.size = size;
    trial.evidence = Evidence::bound;
    trial.why_not = fmt::format("no plan needs less than {}", format_bytes(floor));
    found_.trials.push_back(std::move(trial));
  }

  /// The largest size that is possible first: often it fits, and then nothing is left to try.
  void search_estimated(const Sizes& sizes) {
    SizeSearch search(sizes, question_.budget_bytes);
    add_first_need(search);
    for (std::optional<std::int64_t> size = sizes.last; size; size = next(search)) {
      say(fmt::format("trying a {} of {}", question_.what, *size));
      const Graph graph = steps_.estimated(*size);
      settle(search, plan(*size, graph, Evidence::estimated, search), graph);
    }
  }

  /// From the size that the estimates lead to, until the one above it is measured not to fit.
  void search_measured(const Sizes& sizes) {
    const std::int64_t hint = best_ ? best_->size : sizes.smallest();
    SizeSearch search(sizes, question_.budget_bytes, hint);
    add_first_need(search);
    while (const std::optional<std::int64_t> size = next(search)) {
      const Graph guess = steps_.estimated(*size);
      say(fmt::format("measuring a {} of {}", question_.what, *size));
      const Graph graph = steps_.measured(*size);
      if (!is_measured_) forget_estimates();
      PlannedTrial tried = plan(*size, graph, Evidence::measured, search);
      if (std::ranges::any_of(guess.ops(), &Op::cost_estimated)) {
        tried.trial.error = interpolation_error(guess, graph);
      }
      if (tried.trial.fits) run_step(tried, graph);
      settle(search, std::move(tried), graph);
    }
  }

  /// What fits by estimates alone is a guess as soon as sizes are measured; its plan is still one
  /// to take over.
  void forget_estimates() {
    is_measured_ = true;
    known_ = std::move(best_);
    best_.reset();
  }

  /// A search that is stopped before a measured size fitted has these.
  void remember_estimates() {
    if (!known_) return;
    is_measured_ = false;
    best_ = std::move(known_);
  }

  std::optional<std::int64_t> next(SizeSearch& search) const {
    return Control::stop_requested() ? std::nullopt : search.next();
  }

  /// A step of the first size needs its floor at least: one end of the line.
  void add_first_need(SizeSearch& search) const {
    const auto first = floors_.begin();
    if (question_.extra.kind == ExtraTime::Kind::any && first != floors_.end()) {
      search.add_need(first->first, first->second);
    }
  }

  PlannedTrial plan(std::int64_t size, const Graph& graph, Evidence evidence,
                    const SizeSearch& search) {
    const PlannedSize* known = best_ ? &*best_ : (known_ ? &*known_ : nullptr);
    PlannedTrial tried = plan_size(question_, size, graph, steps_.reserved_bytes(graph), known,
                                   part_of_limit(search));
    tried.trial.evidence = evidence;
    if (question_.seconds > 0) left_seconds_ = std::max(0.0, left_seconds_ - tried.used_seconds);
    found_.planning_seconds += tried.planned.seconds;
    return tried;
  }

  /// The sizes that are left to try share what is left of the limit, with two more that are
  /// measured afterwards.
  double part_of_limit(const SizeSearch& search) const {
    constexpr double kLeast = 0.1;
    if (question_.seconds <= 0) return 0;
    const int measured = steps_.are_measured() ? 2 : 0;
    const int left = search.tries_by_halving();
    const int tries = is_measured_ ? std::min(measured, left) : left + measured;
    return std::max(kLeast, left_seconds_ / tries);
  }

  void run_step(PlannedTrial& tried, const Graph& graph) {
    if (Control::stop_requested()) return;
    Trial& trial = tried.trial;
    trial.run = steps_.run(trial.size, graph, tried.planned);
    if (!trial.run) return;
    trial.evidence = Evidence::run;
    const Bytes peak = trial.run->measured_peak_bytes;
    if (peak <= question_.budget_bytes) return;
    trial.fits = false;
    trial.why_not = fmt::format("a step took {}", format_bytes(peak));
    tried.refusal = refusal(question_, trial);
  }

  void settle(SizeSearch& search, PlannedTrial tried, const Graph& graph) {
    Trial& trial = tried.trial;
    search.add(trial.size, trial.fits);
    if (trial.smallest_budget && question_.extra.kind == ExtraTime::Kind::any) {
      search.add_need(trial.size, *trial.smallest_budget);
    }
    say(fmt::format("note: a {} of {} {}", question_.what, trial.size, verdict(trial)));
    if (trial.fits && (!best_ || best_->size < trial.size)) {
      best_ = PlannedSize{trial.size, trial.evidence, graph, std::move(tried.planned)};
    } else if (!trial.fits && trial.size == search.too_large() && !search.largest()) {
      refusal_ = tried.refusal;
    }
    found_.trials.push_back(std::move(trial));
  }

  static std::string verdict(const Trial& trial) {
    const char* how = trial.evidence == Evidence::estimated ? ", by estimates" : "";
    if (!trial.fits) return fmt::format("is not found to fit{}: {}", how, trial.why_not);
    return fmt::format("fits{}, with an overhead of {:.1f}%", how,
                       100 * trial.overhead.value_or(0));
  }

  [[noreturn]] void refuse() const {
    if (Control::stop_requested()) throw StoppedError("stopped before a size was found to fit.");
    std::rethrow_exception(refusal_);
  }

  Largest answer() {
    found_.size = best_->size;
    found_.evidence = best_->evidence;
    found_.costs = cost::cost_origin(best_->graph);
    found_.planned = std::move(best_->planned);
    // The smallest above it, by the best evidence.
    for (const Trial& trial : found_.trials) {
      if (trial.fits || trial.size <= found_.size) continue;
      const bool counts = !is_measured_ || trial.evidence != Evidence::estimated;
      if (!counts || (found_.too_large && *found_.too_large < trial.size)) continue;
      found_.too_large = trial.size;
      found_.too_large_evidence = trial.evidence;
      found_.why_too_large = trial.why_not;
    }
    return std::move(found_);
  }

  static void stop_if_asked() {
    if (Control::stop_requested()) throw StoppedError("stopped before a size was found to fit.");
  }

  void say(const std::string& message) const {
    if (question_.listener) question_.listener(message);
  }

  const Question& question_;
  Steps& steps_;
  double left_seconds_;
  std::map<std::int64_t, Bytes> floors_;  ///< by size
  std::optional<PlannedSize> best_;       ///< the largest that fits, by the best evidence so far
  std::optional<PlannedSize> known_;      ///< by estimates, once sizes are measured
  bool is_measured_ = false;
  std::exception_ptr refusal_;  ///< of the smallest size that was tried
  Largest found_;
};

}  // namespace

Largest largest_size(const Question& question, Steps& steps) {
  return Finder(question, steps).run();
}

}  // namespace lowtide::largest
