#include "packing/guides.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <random>

namespace lowtide::packing {
namespace {

using Preference = std::vector<double>;

constexpr std::array kRules{ValleyRule::few, ValleyRule::tight, ValleyRule::tight_and_few,
                            ValleyRule::lowest_few, ValleyRule::lowest_tight};

double life(const Item& item) { return item.last - item.first + 1; }
double size(const Item& item) { return static_cast<double>(item.bytes); }

template <typename Key>
Preference by(const Instance& instance, Key key) {
  Preference result;
  for (const Item& item : instance.items) result.push_back(key(item));
  return result;
}

/// The load first; then the area.
Preference by_load_then_area(const Instance& instance) {
  Preference result;
  const std::vector<Bytes> load = loads(instance);
  const auto most = static_cast<double>(*std::ranges::max_element(load));
  for (std::size_t i = 0; i < load.size(); ++i) {
    const Item& item = instance.items[i];
    result.push_back(static_cast<double>(load[i]) * most * instance.cliques +
                     life(item) * size(item));
  }
  return result;
}

Preference plain(const Instance& instance, std::int64_t n) {
  const double largest = size(*std::ranges::max_element(instance.items, {}, &Item::bytes));
  switch (n) {
    case 0: return by(instance, [&](const Item& i) { return life(i) * (largest + 1) + size(i); });
    case 1: return by(instance, [&](const Item& i) { return size(i) + life(i) / 1e6; });
    case 2: return by_load_then_area(instance);
    default: return by(instance, [](const Item& i) { return size(i) * std::sqrt(life(i)); });
  }
}
constexpr std::int64_t kPlain = 4;

/// Uniform in [0, 1); the same with every standard library.
double uniform(std::mt19937_64& random) { return static_cast<double>(random() >> 11) * 0x1p-53; }

Preference mixed(const Instance& instance, std::int64_t n) {
  std::mt19937_64 random(static_cast<std::uint64_t>(n));
  const double weight_of_life = 1.5 * uniform(random);
  const double noise = random() % 2 == 0 ? 0 : uniform(random);
  return by(instance, [&](const Item& item) {
    return weight_of_life * std::log(life(item)) + std::log(size(item)) + noise * uniform(random);
  });
}

}  // namespace

Guide nth_guide(const Instance& instance, std::int64_t n) {
  constexpr auto kCount = static_cast<std::int64_t>(kRules.size());
  const std::int64_t round = n / kCount;
  return {kRules[static_cast<std::size_t>(n % kCount)],
          round < kPlain ? plain(instance, round) : mixed(instance, n)};
}

std::int64_t luby(std::int64_t n) {
  // The first 2^k - 1 terms are the first 2^(k-1) - 1 terms, twice, and then 2^(k-1).
  for (auto place = static_cast<std::uint64_t>(n) + 1;;) {
    const std::uint64_t half = std::bit_floor(place);
    if (place == 2 * half - 1) return static_cast<std::int64_t>(half);
    place -= half - 1;
  }
}

}  // namespace lowtide::packing
