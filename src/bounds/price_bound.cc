#include "bounds/price_bound.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <utility>

#include "base/time_share.h"
#include "bounds/alike.h"
#include "bounds/cost.h"

namespace lowtide::bounds {
namespace {

/// Values below this share of the largest are held for free.
constexpr double kTinyShare = 1e-3;

/// To tell whether a cluster is like another one, and to take over its solution.
constexpr double kWorkPerSpan = 4;

/// Per stage: the least loss of cuts up to one before it.
struct CutChoice {
  double loss = std::numeric_limits<double>::infinity();
  int previous = 0;
};

/// The direction of prices: a sum of slopes in which older ones fade (a deflected subgradient:
/// Camerini, Fratta, Maffioli, 1975). Opposite slopes cancel out, so that thousands of stages,
/// whose prices act on the same values, agree in tens of steps.
class Direction {
 public:
  explicit Direction(std::size_t stages) : slope_(stages) {}

  void forget() { std::ranges::fill(slope_, 0.0); }

  void turn(const std::vector<double>& slope, const std::vector<char>& active) {
    constexpr double kFading = 0.8;
    for (std::size_t t = 0; t < slope_.size(); ++t) {
      slope_[t] = kFading * slope_[t] + (active[t] ? slope[t] : 0);
    }
  }

  /// Squared length of the part that prices can follow, as they are not negative.
  double squared_length(const std::vector<double>& price) const {
    double sum = 0;
    for (std::size_t t = 0; t < slope_.size(); ++t) {
      if (slope_[t] > 0 || price[t] > 0) sum += slope_[t] * slope_[t];
    }
    return sum;
  }

  void advance(std::vector<double>& price, double step) const {
    for (std::size_t t = 0; t < slope_.size(); ++t) {
      price[t] = std::max(0.0, price[t] + step * slope_[t]);
    }
  }

 private:
  std::vector<double> slope_;  // per stage
};

}  // namespace

PriceBound::PriceBound(const remat::StageGraph& graph, Bytes budget)
    : PriceBound(graph, budget, std::vector<bool>(graph.num_stages(), true)) {}

PriceBound::PriceBound(const remat::StageGraph& graph, Bytes budget, std::vector<bool> priced)
    : graph_(graph),
      priced_(std::move(priced)),
      best_prices_(graph.num_stages()),
      best_(graph.required_cost()) {
  decide();
  fill_room(budget);
  group(1, Gluing::loose);
  best_grouping_ = grouping_;
}

double PriceBound::value() const {
  return std::max(graph_.required_cost(), best_ * (1 - kRounding));
}

/// Dropping a value is a choice when its op may run again and it is not tiny, for the first such
/// outputs of each op.
void PriceBound::decide() {
  Bytes largest = 0;
  for (const remat::StageValue& value : graph_.values()) largest = std::max(largest, value.bytes);
  const auto tiny = static_cast<Bytes>(kTinyShare * static_cast<double>(largest));
  decided_.resize(graph_.num_values());
  for (int i = 0; i < graph_.end(); ++i) {
    int left = graph_.stage(i).latest > i ? Cluster::kMostValues : 0;
    for (int v : graph_.stage(i).outputs) {
      decided_[v] = graph_.value(v).bytes > tiny && left > 0;
      left -= decided_[v];
    }
  }
}

/// The budget left by the inputs, outputs and workspace of each stage, and by values that must be
/// held over it since they cannot be made again.
void PriceBound::fill_room(Bytes budget) {
  std::vector<Bytes> room(graph_.num_stages() + 1);
  std::vector<Bytes> held(graph_.num_stages() + 1);
  for (int t = 0; t < graph_.num_stages(); ++t) {
    const remat::Stage& stage = graph_.stage(t);
    room[t] = budget - graph_.resident_bytes() - stage.workspace + stage.in_place;
    for (int v : stage.outputs) room[t] -= graph_.value(v).bytes;
    for (int v : stage.inputs) room[t] -= graph_.value(v).bytes;
  }
  for (const remat::StageValue& value : graph_.values()) {
    if (graph_.stage(value.producer).latest > value.producer) continue;
    held[value.producer + 1] += value.bytes;
    held[std::max(value.last_reader(), value.producer + 1)] -= value.bytes;
    for (int t : value.readers) room[t] += t < value.last_reader() ? value.bytes : 0;
  }
  std::partial_sum(held.begin(), held.end(), held.begin());
  room_.resize(graph_.num_stages());
  for (int t = 0; t < graph_.num_stages(); ++t) {
    infeasible_ = infeasible_ || (priced_[t] && room[t] - held[t] < 0);
    room_[t] = static_cast<double>(room[t] - held[t]);
  }
}

/// An upper bound on the loss when clusters are cut before each stage: crossing values exist for
/// free, which saves running their ops again or holding them, whichever is cheaper.
std::vector<double> PriceBound::crossing_loss() const {
  struct Crossing {
    int last = 0;   // stage of the last op that reads the value
    int until = 0;  // last stage that reads an output of such an op
  };
  std::vector<Crossing> crossing(graph_.num_values());
  for (const BoundOp& op : grouping_->contraction.ops) {
    int until = op.stage;
    for (int v : op.outputs) until = std::max(until, graph_.value(v).last_reader());
    for (int v : op.inputs) {
      crossing[v] = {std::max(crossing[v].last, op.stage), std::max(crossing[v].until, until)};
    }
  }
  std::vector<double> loss(graph_.num_stages() + 1);
  for (const BoundOp& op : grouping_->contraction.ops) {
    for (int v : op.outputs) {
      const auto [last, until] = crossing[v];
      if (last <= op.stage) continue;
      const double held =
          latest_prices().over(op.stage, until) * static_cast<double>(graph_.value(v).bytes);
      const double saved = std::min(held, op.cost);
      loss[op.stage + 1] += saved;
      loss[last + 1] -= saved;
    }
  }
  std::partial_sum(loss.begin(), loss.end(), loss.begin());
  return loss;
}

void PriceBound::group(int cluster_values, Gluing gluing) {
  auto grouping = std::make_shared<Grouping>(Grouping{contract(graph_, decided_, gluing), {}});
  grouping_ = grouping;
  const std::vector<double> loss = crossing_loss();
  const std::vector<BoundOp>& ops = grouping_->contraction.ops;
  const auto n = static_cast<int>(ops.size());
  std::vector<CutChoice> choice(n + 1);
  choice[0].loss = 0;
  for (int end = 1; end <= n; ++end) {
    const double here = end < n ? loss[ops[end].stage] : 0;
    int size = 0;
    for (int begin = end - 1; begin >= 0; --begin) {
      size += static_cast<int>(ops[begin].outputs.size());
      if (size > cluster_values && begin < end - 1) break;
      if (choice[begin].loss + here >= choice[end].loss) continue;
      choice[end] = {choice[begin].loss + here, begin};
    }
  }
  clusters_.clear();
  for (int end = n; end > 0; end = choice[end].previous) {
    const int begin = choice[end].previous;
    clusters_.emplace_back(graph_, std::span(ops).subspan(begin, end - begin));
    grouping->cuts.push_back(begin);
  }
  share_programs(clusters_);
}

std::vector<std::vector<BoundOp>> PriceBound::clusters() const {
  std::vector<std::vector<BoundOp>> clusters;
  auto end = best_grouping_->contraction.ops.end();
  for (int cut : best_grouping_->cuts) {
    const auto begin = best_grouping_->contraction.ops.begin() + cut;
    clusters.emplace_back(begin, end);
    end = begin;
  }
  return clusters;
}

PriceBound::Solved PriceBound::solve(const Cluster& cluster, const remat::Prices& prices) const {
  const Cluster::Program& program = *cluster.program();
  Solved solved{program.solve(cluster.span_prices(prices), table_),
                std::vector<double>(cluster.spans().size())};
  table_.trace([&](int value, int span, int, bool is_given) {
    other_work_ += 1;
    if (!is_given) solved.held[span] += program.bytes[value];
  });
  return solved;
}

/// Of clusters that are solved together with the first of their kind.
double PriceBound::work_of_copies(const Kinds& kinds) const {
  double work = 0;
  for (std::size_t c = 0; c < clusters_.size(); ++c) {
    const bool is_first = kinds.first[kinds.of[c]] == static_cast<int>(c);
    work += is_first ? 0 : kWorkPerSpan * static_cast<double>(clusters_[c].spans().size());
  }
  return work;
}

/// The bound at these prices, and its slope per price: bytes held minus room.
double PriceBound::evaluate(const std::vector<double>& price, std::vector<double>& slope) const {
  const remat::Prices prices(price);
  double bound = graph_.required_cost();
  other_work_ += static_cast<double>(price.size());
  const Kinds kinds = kinds_at(clusters_, prices);
  std::vector<Solved> solved;
  for (int c : kinds.first) solved.push_back(solve(clusters_[c], prices));
  std::vector<double> change(price.size() + 1);
  for (std::size_t c = 0; c < clusters_.size(); ++c) {
    const auto& [cost, held] = solved[kinds.of[c]];
    bound += cost;
    for (std::size_t i = 0; i < held.size(); ++i) {
      const auto [begin, end] = clusters_[c].spans()[i];
      change[begin] += held[i];
      change[end] -= held[i];
    }
  }
  other_work_ += work_of_copies(kinds);
  double held = 0;
  for (std::size_t t = 0; t < price.size(); ++t) {
    held += change[t];
    slope[t] = priced_[t] ? held - room_[t] : 0;
    bound -= price[t] * room_[t];
  }
  return bound;
}

/// Subsets that evaluate() visits at the latest prices; estimated from a sample of clusters.
double PriceBound::work_of_round() const {
  constexpr std::size_t kSample = 64;
  const Kinds kinds = kinds_at(clusters_, latest_prices());
  const std::size_t step = 1 + kinds.first.size() / kSample;
  const double before = spent();
  for (std::size_t i = 0; i < kinds.first.size(); i += step) {
    solve(clusters_[kinds.first[i]], latest_prices());
  }
  const double sampled = spent() - before;
  return static_cast<double>(graph_.num_stages()) + work_of_copies(kinds) +
         static_cast<double>(step) * sampled;
}

/// Of many stages: those that have a price, and in each of some equal parts, twice as many each
/// time, the stage with the least room left. Few prices need few rounds, and clusters are solved
/// fast at them.
void PriceBound::choose_active(const std::vector<double>& price, const std::vector<double>& slope) {
  constexpr std::size_t kMostParts = 4096;
  const std::size_t n = price.size();
  active_.assign(n, n <= kMostParts);
  if (n <= kMostParts) return;
  parts_ = std::min(kMostParts, 2 * parts_);
  const std::size_t length = (n + parts_ - 1) / parts_;
  for (std::size_t begin = 0; begin < n; begin += length) {
    const auto first = slope.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto last = slope.begin() + static_cast<std::ptrdiff_t>(std::min(n, begin + length));
    active_[static_cast<std::size_t>(std::max_element(first, last) - slope.begin())] = true;
  }
  for (std::size_t t = 0; t < n; ++t) active_[t] = active_[t] || price[t] > 0;
}

void PriceBound::start_from(std::vector<double> prices) {
  start_ = remat::Prices(std::move(prices));
}

/// Steps towards best + ambition (Polyak), whose size shrinks when steps stop paying.
void PriceBound::raise(int cluster_values, Gluing gluing, double work, const Control& control) {
  constexpr int kFewRounds = 10;
  constexpr int kManyRounds = 3000;
  constexpr int kPatience = 12;
  constexpr double kFirstAmbition = 0.05;
  constexpr double kNextAmbition = 0.01;  // from prices that are good already
  constexpr double kLastAmbition = 1e-6;
  constexpr double kNanoseconds = 2;  // per unit of work
  for (int values = cluster_values; values > 0; values /= 2) {
    group(values, gluing);
    if (work >= kFewRounds * work_of_round()) break;
  }
  const double end = spent() + work;
  const double scale = graph_.required_cost();
  double ambition = (start_ || best_ > scale ? kNextAmbition : kFirstAmbition) * scale;
  int idle = 0;
  std::vector<double> price = latest_prices().each();
  std::vector<double> slope(price.size());
  Direction direction(price.size());
  bool is_stuck = true;
  for (int round = 0; round < kManyRounds && !control.should_stop(); ++round) {
    if (round >= kFewRounds && spent() >= end) break;
    const double before = spent();
    const double bound = evaluate(price, slope);
    control.count(kNanoseconds * (spent() - before));
    if (std::exchange(is_stuck, false)) choose_active(price, slope);
    if (bound > best_) {
      idle = bound > best_ + 0.01 * ambition ? 0 : idle + 1;
      best_ = bound;
      best_prices_ = remat::Prices(price);
      start_.reset();
      best_grouping_ = grouping_;
    } else if (++idle >= kPatience) {
      ambition /= 2;
      idle = 0;
      price = latest_prices().each();
      direction.forget();
      is_stuck = true;
      if (ambition < kLastAmbition * scale) break;
      continue;
    }
    direction.turn(slope, active_);
    const double length = direction.squared_length(price);
    if (length <= 0) break;
    direction.advance(price, (best_ + ambition - bound) / length);
  }
}

PriceBound::Solution PriceBound::solution(double factor) const {
  const remat::Prices prices = best_prices_.times(factor);
  Solution result{{}, decided_};
  for (const Cluster& cluster : clusters_) cluster.solve(prices, table_, result.holds);
  for (int v : grouping_->contraction.glued) {
    const remat::StageValue& value = graph_.value(v);
    result.holds.push_back({v, value.producer, value.last_reader() + 1, true});
  }
  return result;
}

namespace {

struct Size {
  int values;
  Gluing gluing;
  double share;  // of the work for each; the largest clusters take more for a few steps
};

constexpr std::array kSizes = {Size{1, Gluing::loose, 1},   Size{4, Gluing::loose, 1},
                               Size{10, Gluing::loose, 1},  Size{10, Gluing::strict, 1},
                               Size{14, Gluing::strict, 4}, Size{12, Gluing::strict, 1}};
constexpr std::size_t kFirstLarge = 2;

double shares_from(std::size_t size) {
  double sum = 0;
  for (; size < kSizes.size(); ++size) sum += kSizes[size].share;
  return sum;
}

}  // namespace

BoundSteps::BoundSteps(PriceBound& bound, double work)
    : bound_(bound), work_(work), size_(bound.has_start() ? kFirstLarge : 0) {}

bool BoundSteps::next(const Control& listener, const Control& part) {
  constexpr int kMostRepeats = 10;
  constexpr double kWorth = 0.01;  // relative to the bound minus the cost of every op once
  if (size_ == kSizes.size()) return false;
  const auto [values, gluing, share] = kSizes[size_];
  const double before = bound_.value();
  bound_.raise(values, gluing, share * work_, share_of_time(part, share / shares_from(size_)));
  listener.report(fmt::format("bound {:.3f}% with clusters of {}",
                              100 * (bound_.value() / bound_.required_cost() - 1), values));
  const double worth = kWorth * (bound_.value() - bound_.required_cost());
  const bool pays = size_ >= kFirstLarge && bound_.value() - before > worth;
  if (!pays || ++repeats_ > kMostRepeats) {
    ++size_;
    repeats_ = 0;
  }
  return true;
}

void raise_in_rounds(PriceBound& bound, double work, const Control& listener, const Control& part) {
  BoundSteps steps(bound, work);
  while (!part.should_stop() && steps.next(listener, part)) {
  }
}

}  // namespace lowtide::bounds
