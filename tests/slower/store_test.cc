#include "slower/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <string>

#include "base/error.h"
#include "slower/faulty_calls.h"
#include "slower/file_store.h"
#include "slower/host_store.h"
#include "slower/some_values.h"
#include "support/sweep.h"
#include "support/temp_folder.h"

namespace lowtide::slower {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using testing::TempFolder;

enum class Kind { host, late_host, direct, choppy, buffered, shared };

/// A store of each kind, with what it needs.
struct Made {
  TempFolder folder;
  FaultyCalls calls;
  /// Fewer than there are threads.
  std::shared_ptr<Buffers> buffers = std::make_shared<Buffers>(1, kMiB);
  std::unique_ptr<Store> store;

  Made(Kind kind, Bytes bytes) {
    if (kind == Kind::host) store = std::make_unique<HostStore>(bytes);
    if (kind == Kind::late_host) {
      const Speed speed{.latency_seconds = 1e-4, .bytes_per_second = 5e9};
      store = std::make_unique<HostStore>(bytes, LaneSpeed{speed, speed, true});
    }
    if (store) return;
    if (kind == Kind::choppy) calls.be_choppy();
    if (kind == Kind::choppy) calls.delay(300);
    if (kind == Kind::buffered) calls.refuse_direct();
    store = std::make_unique<FileStore>(
        folder.path(), bytes,
        FileOptions{.request_bytes = kMiB,
                    .threads_per_lane = 3,
                    .calls = &calls,
                    .buffers = kind == Kind::shared ? buffers : nullptr});
  }
};

std::string name_of(Kind kind) {
  switch (kind) {
    case Kind::host: return "Host";
    case Kind::late_host: return "LateHost";
    case Kind::direct: return "Direct";
    case Kind::choppy: return "Choppy";
    case Kind::buffered: return "Buffered";
    case Kind::shared: return "Shared";
  }
  return "";
}

class StoreTest : public ::testing::TestWithParam<Kind> {};
class FaultyStoreTest : public StoreTest {};

constexpr auto kName = [](const auto& info) { return name_of(info.param); };
INSTANTIATE_TEST_SUITE_P(Kinds, StoreTest,
                         ::testing::Values(Kind::host, Kind::late_host, Kind::direct, Kind::choppy,
                                           Kind::buffered, Kind::shared),
                         kName);
INSTANTIATE_TEST_SUITE_P(Kinds, FaultyStoreTest,
                         ::testing::Values(Kind::direct, Kind::choppy, Kind::buffered), kName);

TEST_P(StoreTest, GivesBackWhatItGot) {
  const Made made(GetParam(), 8 * kMiB);
  Store& store = *made.store;
  EXPECT_EQ(store.bytes(), 8 * kMiB);
  const Value value(5 * kMiB, 0, 1), back(5 * kMiB, 0, 2);
  store.wait(store.write(kMiB, value.span(), "v"));
  store.wait(store.read(kMiB, back.span(), "v"));
  EXPECT_TRUE(std::ranges::equal(value.span(), back.span()));
  EXPECT_EQ(store.counters().bytes_out, 5 * kMiB);
  EXPECT_EQ(store.counters().bytes_in, 5 * kMiB);
  EXPECT_GE(store.counters().wait_seconds, 0);
  EXPECT_GT(store.counters().copy_seconds, 0);
}

TEST_P(StoreTest, ReadsAWriteThatIsUnderWayAndAPartOfIt) {
  const Made made(GetParam(), 4 * kMiB);
  Store& store = *made.store;
  const Value first(kMiB, 64, 1), second(3 * kMiB, 0, 2), part(2 * kMiB, 8, 3), old(kMiB, 0, 4);
  store.write(0, first.span(), "first");
  store.write(kMiB, second.span(), "second");
  const Ticket read = store.read(kMiB / 2 + 1, part.span(), "part");
  const Ticket read_old = store.read(0, old.span(), "first");
  const Ticket last = store.write(0, second.span().first(kMiB), "over both reads");
  store.wait(last);
  store.wait(read_old);
  store.wait(read);
  EXPECT_TRUE(std::ranges::equal(old.span(), first.span()));
  const std::size_t of_first = kMiB / 2 - 1;
  EXPECT_TRUE(std::ranges::equal(part.span().first(of_first), first.span().last(of_first)));
  EXPECT_TRUE(
      std::ranges::equal(part.span().subspan(of_first), second.span().first(2 * kMiB - of_first)));
}

TEST_P(StoreTest, RefusesToReadWhatWasNeverWritten) {
  const Made made(GetParam(), 4 * kMiB);
  Store& store = *made.store;
  const Value value(1000, 0, 1), back(1001, 0, 2);
  store.wait(store.write(5000, value.span(), "v"));
  const Ticket none = store.read(0, back.span(), "none");
  const Ticket too_much = store.read(5000, back.span(), "more");
  const Ticket right = store.read(5000, back.span().first(1000), "v");
  EXPECT_THAT([&] { store.wait(none); },
              ThrowsMessage<Error>(AllOf(HasSubstr("\"none\""), HasSubstr("never written"),
                                         HasSubstr("bytes 0 to 1001"))));
  EXPECT_THAT([&] { store.wait(none); }, ThrowsMessage<Error>(HasSubstr("\"none\"")));
  EXPECT_THROW(store.wait(too_much), Error);
  store.wait(right);
  EXPECT_TRUE(std::ranges::equal(back.span().first(1000), value.span()));
  EXPECT_EQ(store.counters().bytes_in, 1000);
}

TEST_P(StoreTest, RefusesRangesOutsideAndTicketsOfOthers) {
  const Made made(GetParam(), 8192);
  Store& store = *made.store;
  const Value value(8193, 0, 1);
  EXPECT_THROW(store.write(0, value.span(), "v"), std::logic_error);
  EXPECT_THROW(store.read(8192, value.span().first(1), "v"), std::logic_error);
  EXPECT_THROW(store.read(-1, value.span().first(1), "v"), std::logic_error);
  EXPECT_THROW(store.wait({}), std::logic_error);
  EXPECT_THROW((void)store.done({0}), std::logic_error);
  store.wait(store.write(8192, {}, "nothing"));
  store.wait(store.read(0, {}, "nothing"));
}

/// What a store must hold, byte by byte, as the copies asked for so far leave it.
class Model {
 public:
  explicit Model(Bytes bytes) : content_(std::size_t(bytes)), owner_(std::size_t(bytes), -1) {}

  void write(Bytes offset, std::span<const std::byte> data) {
    int last = -1;
    for (int& owner : std::span(owner_).subspan(std::size_t(offset), data.size())) {
      if (owner != last && owner >= 0) is_whole_[std::size_t(owner)] = false;
      last = owner;
      owner = static_cast<int>(is_whole_.size());
    }
    std::ranges::copy(data, content_.begin() + offset);
    is_whole_.push_back(true);
  }

  enum class Answer { bytes, error, either };
  Answer answer(Bytes offset, std::size_t bytes) const {
    const auto owners = std::span(owner_).subspan(std::size_t(offset), bytes);
    if (std::ranges::count(owners, -1)) return Answer::error;
    const auto is_whole = [&](int owner) { return bool(is_whole_[std::size_t(owner)]); };
    return std::ranges::all_of(owners, is_whole) ? Answer::bytes : Answer::either;
  }
  std::vector<std::byte> content(Bytes offset, std::size_t bytes) const {
    return {content_.begin() + offset, content_.begin() + offset + std::ptrdiff_t(bytes)};
  }

 private:
  std::vector<std::byte> content_;
  std::vector<int> owner_;      // number of the last write; -1: none
  std::vector<bool> is_whole_;  // by the number of the write
};

/// A copy under way, with what it must give.
struct Asked {
  Ticket ticket;
  bool is_write;
  Value value;
  Model::Answer answer;
  std::vector<std::byte> expected;
};

/// Asks for random copies, some of them under way at a time, and checks each.
class Player {
 public:
  Player(Store& store, unsigned seed, bool has_faults)
      : store_(store), model_(store.bytes()), random_(seed), has_faults_(has_faults) {}

  void play(int steps, const std::function<void(std::mt19937&)>& disturb) {
    for (int step = 0; step < steps; ++step) {
      disturb(random_);
      ask();
      check_order();
      while (asked_.size() > random_() % 12) end_one();
    }
    while (!asked_.empty()) end_one();
  }

  int errors() const { return errors_; }

 private:
  Bytes rounded(Bytes bytes) {
    constexpr Bytes kUnits[] = {1, 64, kPage};
    return align_down(bytes, kUnits[random_() % 3]);
  }

  void ask() {
    const Bytes offset = rounded(Bytes(random_()) % store_.bytes());
    // Small and large ones alike.
    const Bytes most = std::min(store_.bytes() - offset, Bytes{1} << random_() % 22);
    const Bytes bytes = rounded(Bytes(random_()) % (most + 1));
    const std::string name = "v" + std::to_string(number_++);
    Value value(bytes, random_() % 2 * 64, unsigned(random_()));
    if (random_() % 2) {
      model_.write(offset, value.span());
      const Ticket ticket = store_.write(offset, value.span(), name);
      std::vector<std::byte> expected = value.content();
      asked_.push_back({ticket, true, std::move(value), Model::Answer::bytes, std::move(expected)});
    } else {
      const auto size = std::size_t(bytes);
      const Ticket ticket = store_.read(offset, value.span(), name);
      asked_.push_back({ticket, false, std::move(value), model_.answer(offset, size),
                        model_.content(offset, size)});
    }
  }

  /// In each lane, one that has ended has none before it that has not. The later is asked first.
  void check_order() const {
    for (const bool is_write : {false, true}) {
      bool later_done = false;
      for (auto copy = asked_.rbegin(); copy != asked_.rend(); ++copy) {
        if (copy->is_write != is_write) continue;
        const bool is_done = store_.done(copy->ticket);
        EXPECT_TRUE(is_done || !later_done) << "a later copy has ended earlier";
        later_done |= is_done;
      }
    }
  }

  void end_one() {
    const auto which = asked_.begin() + std::ptrdiff_t(random_() % asked_.size());
    std::string error;
    try {
      store_.wait(which->ticket);
    } catch (const Error& thrown) {
      error = thrown.what();
    }
    EXPECT_TRUE(store_.done(which->ticket));
    if (error.empty()) {
      EXPECT_NE(which->answer, Model::Answer::error);
      if (which->answer != Model::Answer::error) {
        EXPECT_TRUE(std::ranges::equal(which->value.span(), which->expected)) << "wrong bytes";
      }
    } else {
      ++errors_;
      EXPECT_TRUE(has_faults_ || which->answer != Model::Answer::bytes) << error;
    }
    asked_.erase(which);
  }

  Store& store_;
  Model model_;
  std::mt19937 random_;
  const bool has_faults_;
  std::deque<Asked> asked_;
  int number_ = 0;
  int errors_ = 0;
};

TEST_P(StoreTest, HoldsWhatRandomCopiesLeave) {
  for (unsigned seed = 0; seed < testing::sweep(40u, 2u); ++seed) {
    SCOPED_TRACE(seed);
    const Made made(GetParam(), 3 * kMiB + 77);
    Player(*made.store, seed, false).play(100, [](std::mt19937&) {});
  }
}

TEST_P(FaultyStoreTest, NeverGivesWrongBytesWhateverTheDiskDoes) {
  int errors = 0;
  for (unsigned seed = 0; seed < testing::sweep(40u, 2u); ++seed) {
    SCOPED_TRACE(seed);
    Made made(GetParam(), 3 * kMiB + 77);
    Player player(*made.store, seed, true);
    player.play(100, [&](std::mt19937& random) {
      if (random() % 4) return;
      const auto fault = static_cast<Fault>(random() % 8);
      const int times = 1 + int(random() % 3);
      random() % 2 ? made.calls.fail_writes(fault, times, ENOSPC)
                   : made.calls.fail_reads(fault, times);
    });
    errors += player.errors();
    // The disk works again, and so does the store.
    made.calls.fail_writes(Fault::none, 0);
    made.calls.fail_reads(Fault::none, 0);
    const Value value(3 * kMiB, 0, seed), back(3 * kMiB, 0, seed + 1);
    made.store->wait(made.store->write(0, value.span(), "again"));
    made.store->wait(made.store->read(0, back.span(), "again"));
    EXPECT_TRUE(std::ranges::equal(value.span(), back.span()));
  }
  EXPECT_GT(errors, 5);
}

TEST_P(StoreTest, EndsWhileCopiesAreUnderWay) {
  for (int seed = 0; seed < testing::sweep(20, 4); ++seed) {
    std::deque<Value> values;
    Made made(GetParam(), 4 * kMiB);
    for (int i = 0; i < 30; ++i) {
      values.emplace_back(kMiB / 2, 64 * (i % 2), unsigned(i));
      const Bytes offset = Bytes{64} * ((i * 7919) % 50000);
      i % 3 ? made.store->write(offset, values.back().span(), "v")
            : made.store->read(offset, values.back().span(), "v");
    }
    made.store.reset();
  }
}

TEST(HostStore, DoesNotSleepOnWhenItEnds) {
  const Speed slow{.latency_seconds = 1e6, .bytes_per_second = 1e-30};
  const Value value(kMiB, 0, 1), other(kMiB, 0, 2);
  HostStore store(4 * kMiB, {.out = slow, .in = {}, .shared = false});
  const Ticket first = store.write(0, value.span(), "v");
  const Ticket second = store.write(kMiB, value.span(), "w");
  const Ticket read = store.read(0, other.span(), "v");
  EXPECT_FALSE(store.done(first) || store.done(second) || store.done(read));
}

TEST(HostStore, RefusesWhatIsNoSpeed) {
  EXPECT_THROW(HostStore(10, {.out = {.latency_seconds = -1}, .in = {}}), InputError);
  EXPECT_THROW(HostStore(10, {.out = {}, .in = {.bytes_per_second = std::nan("")}}), InputError);
  EXPECT_THROW(HostStore(-1), InputError);
}

}  // namespace
}  // namespace lowtide::slower
