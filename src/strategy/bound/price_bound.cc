#include "strategy/bound/price_bound.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace lowtide {
namespace {

/// Values below this share of the largest are held for nothing.
constexpr double kTinyShare = 1e-3;

/// Sums of floating-point numbers may be off by this share; a bound must not be.
constexpr double kRounding = 1e-9;

/// Per stage: the least that must be lost to cut before it.
struct CutChoice {
  double loss = std::numeric_limits<double>::infinity();
  int previous = 0;
};

double squared_length(const std::vector<double>& slope, const std::vector<double>& price) {
  double sum = 0;
  for (std::size_t t = 0; t < slope.size(); ++t) {
    if (slope[t] > 0 || price[t] > 0) sum += slope[t] * slope[t];
  }
  return sum;
}

}  // namespace

PriceBound::PriceBound(const StageGraph& graph, Bytes budget)
    : graph_(graph), best_prices_(graph.num_stages()), best_(graph.required_cost()) {
  Bytes largest = 0;
  for (const StageValue& value : graph.values()) largest = std::max(largest, value.bytes);
  tiny_ = static_cast<Bytes>(kTinyShare * static_cast<double>(largest));
  fill_room(budget);
  group(1);
}

double PriceBound::value() const {
  return std::max(graph_.required_cost(), best_ * (1 - kRounding));
}

/// Whether dropping the value is a choice: its op may run again, and it is not tiny.
bool PriceBound::is_decided(int v) const {
  const StageValue& value = graph_.value(v);
  return value.bytes > tiny_ && graph_.stage(value.producer).deadline > value.producer;
}

/// What is left of the budget beside what each stage reads, makes and works in, and beside values
/// that must be held over it since they cannot be made again.
void PriceBound::fill_room(Bytes budget) {
  std::vector<Bytes> room(graph_.num_stages() + 1);
  std::vector<Bytes> held(graph_.num_stages() + 1);
  for (int t = 0; t < graph_.num_stages(); ++t) {
    const Stage& stage = graph_.stage(t);
    room[t] = budget - graph_.resident_bytes() - stage.workspace + stage.in_place;
    for (int v : stage.outputs) room[t] -= graph_.value(v).bytes;
    for (int v : stage.inputs) room[t] -= graph_.value(v).bytes;
  }
  for (const StageValue& value : graph_.values()) {
    if (graph_.stage(value.producer).deadline > value.producer) continue;
    held[value.producer + 1] += value.bytes;
    held[std::max(value.last_reader(), value.producer + 1)] -= value.bytes;
    for (int t : value.readers) room[t] += t < value.last_reader() ? value.bytes : 0;
  }
  std::partial_sum(held.begin(), held.end(), held.begin());
  room_.resize(graph_.num_stages());
  for (int t = 0; t < graph_.num_stages(); ++t) {
    infeasible_ = infeasible_ || room[t] - held[t] < 0;
    room_[t] = static_cast<double>(room[t] - held[t]);
  }
}

/// What the bound loses at most when clusters are cut before each stage: values that cross are
/// there for nothing, which saves running their ops again or holding them, whichever is cheaper.
std::vector<double> PriceBound::crossing_loss() const {
  std::vector<double> loss(graph_.num_stages() + 1);
  for (int v = 0; v < graph_.num_values(); ++v) {
    const StageValue& value = graph_.value(v);
    int last = value.producer;
    int until = value.producer;
    for (int reader : value.readers) {
      const auto& outputs = graph_.stage(reader).outputs;
      if (!std::ranges::any_of(outputs, [&](int out) { return is_decided(out); })) continue;
      last = reader;
      for (int out : outputs) until = std::max(until, graph_.value(out).last_reader());
    }
    if (last == value.producer || !is_decided(v)) continue;
    const double held = best_prices_.over(value.producer, until) * static_cast<double>(value.bytes);
    const double saved = std::min(held, graph_.stage(value.producer).cost);
    loss[value.producer + 1] += saved;
    loss[last + 1] -= saved;
  }
  std::partial_sum(loss.begin(), loss.end(), loss.begin());
  return loss;
}

void PriceBound::group(int cluster_values) {
  const std::vector<double> loss = crossing_loss();
  std::vector<int> stages;  // with something to decide
  std::vector<std::vector<int>> values;
  for (int i = 0; i < graph_.end(); ++i) {
    std::vector<int> decided;
    std::ranges::copy_if(graph_.stage(i).outputs, std::back_inserter(decided),
                         [&](int v) { return is_decided(v); });
    if (decided.empty()) continue;
    decided.resize(std::min<std::size_t>(decided.size(), Cluster::kMostValues));
    stages.push_back(i);
    values.push_back(std::move(decided));
  }
  const auto n = static_cast<int>(stages.size());
  std::vector<CutChoice> choice(n + 1);
  choice[0].loss = 0;
  for (int end = 1; end <= n; ++end) {
    const double here = end < n ? loss[stages[end]] : 0;
    int size = 0;
    for (int begin = end - 1; begin >= 0; --begin) {
      size += static_cast<int>(values[begin].size());
      if (size > cluster_values && begin < end - 1) break;
      if (choice[begin].loss + here >= choice[end].loss) continue;
      choice[end] = {choice[begin].loss + here, begin};
    }
  }
  clusters_.clear();
  for (int end = n; end > 0; end = choice[end].previous) {
    const int begin = choice[end].previous;
    std::vector<int> together;
    for (int k = begin; k < end; ++k) {
      together.insert(together.end(), values[k].begin(), values[k].end());
    }
    clusters_.emplace_back(graph_, std::vector(stages.begin() + begin, stages.begin() + end),
                           std::move(together));
  }
}

/// The bound at these prices, and by how much it rises per price: bytes held less room.
double PriceBound::evaluate(const std::vector<double>& price, std::vector<double>& slope) const {
  const Prices prices(price);
  double bound = graph_.required_cost();
  std::vector<Hold> holds;
  for (const Cluster& cluster : clusters_) bound += cluster.solve(prices, scratch_, holds);
  std::vector<double> change(price.size() + 1);
  for (const Hold& hold : holds) {
    if (hold.free) continue;
    change[hold.begin] += static_cast<double>(graph_.value(hold.value).bytes);
    change[hold.end] -= static_cast<double>(graph_.value(hold.value).bytes);
  }
  double held = 0;
  for (std::size_t t = 0; t < price.size(); ++t) {
    held += change[t];
    slope[t] = held - room_[t];
    bound -= price[t] * room_[t];
  }
  return bound;
}

/// Steps towards best + ambition (Polyak), whose size shrinks when steps stop paying.
void PriceBound::raise(int cluster_values, double work, const Control& control) {
  constexpr double kFewRounds = 10;
  constexpr double kManyRounds = 3000;
  constexpr int kPatience = 12;
  constexpr double kFirstAmbition = 0.05;
  constexpr double kLastAmbition = 1e-6;
  group(cluster_values);
  double each = static_cast<double>(graph_.num_stages());
  for (const Cluster& cluster : clusters_) each += cluster.work();
  const int rounds = static_cast<int>(std::clamp(work / each, kFewRounds, kManyRounds));
  const double scale = graph_.required_cost();
  double ambition = kFirstAmbition * scale;
  int idle = 0;
  std::vector<double> price = best_prices_.each();
  std::vector<double> slope(price.size());
  for (int round = 0; round < rounds && !control.should_stop(); ++round) {
    const double bound = evaluate(price, slope);
    if (bound > best_) {
      idle = bound > best_ + 0.01 * ambition ? 0 : idle + 1;
      best_ = bound;
      best_prices_ = Prices(price);
    } else if (++idle >= kPatience) {
      ambition /= 2;
      idle = 0;
      price = best_prices_.each();
      if (ambition < kLastAmbition * scale) break;
      continue;
    }
    const double length = squared_length(slope, price);
    if (length <= 0) break;
    const double step = (best_ + ambition - bound) / length;
    for (std::size_t t = 0; t < price.size(); ++t) {
      price[t] = std::max(0.0, price[t] + step * slope[t]);
    }
  }
}

PriceBound::Solution PriceBound::solution(double factor) const {
  std::vector<double> price = best_prices_.each();
  for (double& p : price) p *= factor;
  const Prices prices(std::move(price));
  Solution result{{}, std::vector<bool>(graph_.num_values())};
  for (const Cluster& cluster : clusters_) cluster.solve(prices, scratch_, result.holds);
  for (int v = 0; v < graph_.num_values(); ++v) result.decided[v] = is_decided(v);
  return result;
}

}  // namespace lowtide
