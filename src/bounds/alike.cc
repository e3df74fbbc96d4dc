#include "bounds/alike.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <unordered_map>

namespace lowtide::bounds {
namespace {

class Hash {
 public:
  template <class T>
  void add(const T& part) {
    constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15;
    state_ = (state_ ^ std::hash<T>()(part)) * kOdd;
    state_ ^= state_ >> 32;
  }
  std::uint64_t value() const { return state_; }

 private:
  std::uint64_t state_ = 0;
};

std::uint64_t hash_of(const Cluster::Program& program) {
  Hash hash;
  for (double bytes : program.bytes) hash.add(bytes);
  for (const auto& run : program.runs) {
    hash.add(run.in);
    hash.add(run.out);
    hash.add(run.spans);
    hash.add(run.cost);
  }
  for (const auto& step : program.steps) {
    hash.add(static_cast<int>(step.kind));
    hash.add(step.values);
    hash.add(step.span);
  }
  return hash.value();
}

std::uint64_t hash_of(const Cluster::Program* program, std::span<const double> prices) {
  Hash hash;
  hash.add(program);
  for (double price : prices) hash.add(price);
  return hash.value();
}

}  // namespace

Kinds kinds_at(std::span<const Cluster> clusters, const remat::Prices& prices) {
  Kinds kinds;
  std::unordered_multimap<std::uint64_t, int> known;
  std::vector<std::vector<double>> prices_of;  // per kind
  for (int c = 0; c < static_cast<int>(clusters.size()); ++c) {
    const Cluster::Program* program = clusters[c].program().get();
    std::vector<double> here = clusters[c].span_prices(prices);
    const std::uint64_t hash = hash_of(program, here);
    const auto [begin, end] = known.equal_range(hash);
    const auto same = std::find_if(begin, end, [&](const auto& entry) {
      const int kind = entry.second;
      return clusters[kinds.first[kind]].program().get() == program && prices_of[kind] == here;
    });
    if (same != end) {
      kinds.of.push_back(same->second);
      continue;
    }
    const int kind = static_cast<int>(kinds.first.size());
    known.emplace(hash, kind);
    kinds.of.push_back(kind);
    kinds.first.push_back(c);
    prices_of.push_back(std::move(here));
  }
  return kinds;
}

void share_programs(std::span<Cluster> clusters) {
  std::unordered_multimap<std::uint64_t, std::shared_ptr<const Cluster::Program>> known;
  for (Cluster& cluster : clusters) {
    const std::uint64_t hash = hash_of(*cluster.program());
    const auto [begin, end] = known.equal_range(hash);
    const auto same = std::find_if(
        begin, end, [&](const auto& entry) { return *entry.second == *cluster.program(); });
    if (same == end) {
      known.emplace(hash, cluster.program());
    } else {
      cluster.share(same->second);
    }
  }
}

}  // namespace lowtide::bounds
