#include "largest/size_search.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "base/error.h"

namespace lowtide::largest {
namespace {

using Need = std::function<Bytes(std::int64_t size)>;

/// Searches by what each size needs; counts the tries.
int search_through(SizeSearch& search, const Need& need, Bytes budget, bool tells_needs) {
  int tries = 0;
  while (const std::optional<std::int64_t> size = search.next()) {
    search.add(*size, need(*size) <= budget);
    if (tells_needs) search.add_need(*size, need(*size));
    if (++tries > 1000) break;
  }
  return tries;
}

/// By looking at every size.
std::optional<std::int64_t> largest_of(const Sizes& sizes, const Need& need, Bytes budget) {
  std::optional<std::int64_t> best;
  for (std::int64_t size = sizes.first; size <= sizes.last; ++size) {
    if (size % sizes.multiple == 0 && need(size) <= budget) best = size;
  }
  return best;
}

TEST(SizeSearchTest, FindsWhatLookingAtEverySizeFinds) {
  std::mt19937_64 draw(7);
  const auto below = [&](std::int64_t most) {
    return static_cast<std::int64_t>(draw() % static_cast<std::uint64_t>(most));
  };
  for (int round = 0; round < 2000; ++round) {
    Sizes sizes{.first = 1 + below(5), .last = 20 + below(300), .multiple = 1 + below(6)};
    const Bytes fixed = below(1000), slope = 1 + below(50), square = below(2) * (1 + below(3));
    const Need need = [=](std::int64_t size) {
      return fixed + slope * size + square * size * size;
    };
    const Bytes budget = below(need(sizes.last) * 2);
    const bool tells_needs = below(2) == 1;
    std::optional<std::int64_t> hint;
    if (below(2) == 1) hint = below(sizes.last + 20);
    SizeSearch search(sizes, budget, hint);
    const int tries = search_through(search, need, budget, tells_needs);
    EXPECT_EQ(search.largest(), largest_of(sizes, need, budget)) << "round " << round;
    EXPECT_LT(tries, 40) << "round " << round;
    if (const auto too_large = search.too_large()) {
      EXPECT_GT(need(*too_large), budget) << "round " << round;
      EXPECT_EQ(*too_large, search.largest() ? *search.largest() + sizes.multiple : *too_large);
    } else {
      EXPECT_EQ(search.largest().value() / sizes.multiple, sizes.last / sizes.multiple);
    }
  }
}

TEST(SizeSearchTest, ALineNeedsFewTries) {
  const Need need = [](std::int64_t size) { return 12345 + 678 * size; };
  constexpr Bytes kBudget = 12345 + 678 * 4321 + 77;
  SizeSearch search({}, kBudget, 1);
  // Each size is at most eight times the largest before: 1, 2, 16, 128, 1024, 4321, 4322.
  EXPECT_EQ(search_through(search, need, kBudget, true), 7);
  EXPECT_EQ(search.largest(), 4321);
  EXPECT_EQ(search.too_large(), 4322);
}

TEST(SizeSearchTest, AGoodHintNeedsTwoTries) {
  SizeSearch search({.first = 1, .last = 1000, .multiple = 1}, 500, 500);
  EXPECT_EQ(search_through(search, [](std::int64_t size) { return size; }, 500, false), 2);
  EXPECT_EQ(search.largest(), 500);
}

TEST(SizeSearchTest, HalvingTakesAsManyTriesAsItSays) {
  for (std::int64_t last = 1; last < 200; ++last) {
    for (std::int64_t answer = 0; answer <= last; ++answer) {
      SizeSearch search({.first = 1, .last = last, .multiple = 1}, answer);
      const int most = search.tries_by_halving();
      EXPECT_LE(
          search_through(search, [](std::int64_t size) { return size; }, answer, false), most);
    }
  }
}

TEST(SizeSearchTest, WhatFitsIsNotForgotten) {
  SizeSearch search({.first = 1, .last = 100, .multiple = 1}, 0);
  search.add(50, true);
  search.add(40, false);
  EXPECT_EQ(search.largest(), 50);
  EXPECT_EQ(search.too_large(), std::nullopt);
  search.add(60, false);
  search.add(60, true);
  EXPECT_EQ(search.largest(), 60);
  EXPECT_EQ(search.too_large(), 61);  // nothing is known of it, and it is not tried
}

TEST(SizeSearchTest, NoSizeIsRefused) {
  EXPECT_THROW(SizeSearch({.first = 5, .last = 7, .multiple = 8}, 1), InputError);
  EXPECT_THROW(SizeSearch({.first = 5, .last = 4, .multiple = 1}, 1), InputError);
}

}  // namespace
}  // namespace lowtide::largest
