#include "bounds/subset_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <utility>
#include <vector>

namespace lowtide::bounds {
namespace {

using Values = SubsetTable::Values;

/// The same table, computed one subset at a time.
class NaiveTable {
 public:
  explicit NaiveTable(std::vector<double> bytes) : bytes_(std::move(bytes)) {}

  void make(Values values) {
    change([&](Values s) { return s | values; });
  }
  void close(Values values) {
    change([&](Values s) { return s & ~values; });
  }
  void run(Values in, Values out, double cost) {
    for (const auto& [s, least] : std::map(least_)) {
      if ((s & in) == in) improve(s | out, least + cost);
    }
  }
  void drop(Values values) {
    for (int v = 0; v < 16; ++v) {
      if ((values >> v & 1) == 0) continue;
      for (const auto& [s, least] : std::map(least_)) improve(s & ~(1 << v), least);
    }
  }
  void need(Values values) {
    std::erase_if(least_, [&](const auto& entry) { return (entry.first & values) != values; });
  }
  void pay(Values given, double price) {
    for (auto& [s, least] : least_) {
      for (std::size_t v = 0; v < bytes_.size(); ++v) {
        if ((s & ~given) >> v & 1) least += price * bytes_[v];
      }
    }
  }
  double least() const {
    return std::ranges::min_element(least_, {}, [](const auto& e) { return e.second; })->second;
  }

 private:
  template <class To>
  void change(const To& to) {
    const std::map<int, double> before = std::exchange(least_, {});
    for (const auto& [s, least] : before) improve(to(static_cast<Values>(s)), least);
  }
  void improve(int s, double cost) {
    const auto [at, is_new] = least_.try_emplace(s, cost);
    if (!is_new) at->second = std::min(at->second, cost);
  }

  std::vector<double> bytes_;
  std::map<int, double> least_{{0, 0.0}};
};


/// Random steps for both tables, as a cluster makes them: values are made one by one; in between
/// some may be dropped, made again, needed, paid for; in the end all are closed.
class RandomSteps {
 public:
  explicit RandomSteps(unsigned seed) : random_(seed), bytes_(2 + random_() % 6) {
    for (double& b : bytes_) b = static_cast<double>(1 + random_() % 9);
    table_.reset(bytes_);
    naive_ = NaiveTable(bytes_);
    const int all = static_cast<int>(bytes_.size());
    for (int made = 0; made < all; ++made) {
      make(made);
      for (int i = 0; i < 6; ++i) any_step();
    }
    while (open_ != 0) {
      any_step();
      if (random_() % 3 == 0) close(random_value());
    }
  }

  SubsetTable& table() { return table_; }
  const NaiveTable& naive() const { return naive_; }
  const std::vector<double>& bytes() const { return bytes_; }
  double price_at(int stage) const { return prices_[static_cast<std::size_t>(stage)]; }

 private:
  void make(int v) {
    const auto value = static_cast<Values>(1 << v);
    table_.make(value);
    naive_.make(value);
    open_ |= value;
  }
  void close(Values value) {
    table_.close(value);
    naive_.close(value);
    open_ &= static_cast<Values>(~value);
  }
  Values random_value() {
    int v = 0;
    do v = static_cast<int>(random_() % bytes_.size());
    while ((open_ >> v & 1) == 0);
    return static_cast<Values>(1 << v);
  }
  Values random_values() { return static_cast<Values>(random_() & random_() & open_); }

  void any_step() {
    const Values some = random_values();
    switch (random_() % 5) {
      case 0: {
        const Values out = random_value() | (random_() % 4 == 0 ? random_value() : Values{0});
        const auto in = static_cast<Values>(some & ~out);
        const double cost = static_cast<double>(1 + random_() % 9);
        table_.run(in, out, cost);
        naive_.run(in, out, cost);
        break;
      }
      case 1:
        table_.drop(some);
        naive_.drop(some);
        break;
      case 2: need(some); break;
      default: {
        const double price = static_cast<double>(random_() % 3);
        const int stage = static_cast<int>(prices_.size());
        prices_.push_back(price);
        table_.pay(some, price, stage, stage + 1);
        naive_.pay(some, price);
      }
    }
  }
  /// Each can be made from nothing at a high cost, so that some subset always has it.
  void need(Values values) {
    constexpr double kDear = 50;
    table_.run(0, open_, kDear);
    naive_.run(0, open_, kDear);
    table_.need(values);
    naive_.need(values);
  }

  std::mt19937 random_;
  std::vector<double> bytes_;
  SubsetTable table_;
  NaiveTable naive_{{}};
  std::vector<double> prices_;
  Values open_ = 0;
};

TEST(SubsetTable, FindsTheLeastCostThatANaiveTableFinds) {
  for (unsigned seed = 1; seed <= 400; ++seed) {
    RandomSteps steps(seed);
    EXPECT_NEAR(steps.table().least(), steps.naive().least(), 1e-9) << "seed " << seed;
  }
}

TEST(SubsetTable, TraceHoldsNoMoreThanTheCostPaysFor) {
  int holding = 0;
  for (unsigned seed = 1; seed <= 400; ++seed) {
    RandomSteps steps(seed);
    double paid = 0;
    steps.table().trace([&](int value, int begin, int end, bool is_given) {
      ASSERT_EQ(end, begin + 1);
      if (!is_given) paid += steps.price_at(begin) * steps.bytes()[static_cast<std::size_t>(value)];
    });
    EXPECT_LE(paid, steps.table().least() + 1e-9) << "seed " << seed;
    holding += paid > 0;
  }
  EXPECT_GT(holding, 100);  // the random steps do hold values at a price
}

TEST(SubsetTable, IsAsLargeAsThereAreValuesThatMayHaveBeenDropped) {
  const std::vector<double> bytes(SubsetTable::kMostValues, 1.0);
  SubsetTable table;
  table.reset(bytes);
  const Values all = (1u << SubsetTable::kMostValues) - 1;
  table.make(all);
  table.run(0, 1, 1);
  table.pay(0, 1, 0, 1);
  EXPECT_LT(table.work(), 10);
  EXPECT_EQ(table.least(), SubsetTable::kMostValues);
  table.drop(all);
  EXPECT_GT(table.work(), 1u << (SubsetTable::kMostValues - 1));
}

}  // namespace
}  // namespace lowtide::bounds
