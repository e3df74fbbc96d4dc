#include "runtime/away_residents.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/rand.h>
#include <c10/core/Allocator.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <new>
#include <random>
#include <set>
#include <vector>

#include "base/error.h"
#include "device/allocation.h"
#include "slower/host_store.h"

namespace lowtide::runtime {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

constexpr Bytes kRoom = 1 << 20, kPlace = 1 << 16;

class FailingStore final : public slower::Store {
 public:
  explicit FailingStore(Bytes bytes) : store_(bytes) {}
  Bytes bytes() const override { return store_.bytes(); }
  Bytes buffer_bytes() const override { return 0; }
  slower::Ticket write(Bytes offset, std::span<const std::byte> data,
                       std::string_view name) override {
    return store_.write(offset, data, name);
  }
  slower::Ticket read(Bytes offset, std::span<std::byte> into, std::string_view name) override {
    if (reads_until_failure == 0) throw std::bad_alloc();
    --reads_until_failure;
    const slower::Ticket copy = store_.read(offset, into, name);
    under_way.insert(copy.number);
    return copy;
  }
  void wait(slower::Ticket ticket) override {
    store_.wait(ticket);
    under_way.erase(ticket.number);
    if (fails) throw Error("the disk is gone");
  }
  bool done(slower::Ticket ticket) const override { return store_.done(ticket); }
  slower::Counters counters() const override { return store_.counters(); }

  bool fails = false;
  std::int64_t reads_until_failure = 1 << 20;
  std::set<std::int64_t> under_way;  ///< reads that nobody has waited for

 private:
  slower::HostStore store_;
};

/// Gives memory so many times, then none, while it lasts.
class CountedMemory final : public c10::Allocator {
 public:
  explicit CountedMemory(int times) : left_(times), plain_(*c10::GetAllocator(at::kCPU)) {
    c10::SetAllocator(at::kCPU, this, kHighest);
    EXPECT_EQ(c10::GetAllocator(at::kCPU), this);
  }
  ~CountedMemory() override { c10::SetAllocator(at::kCPU, &plain_, kHighest); }
  c10::DataPtr allocate(std::size_t bytes) override {
    if (left_ == 0) throw std::bad_alloc();
    --left_;
    return plain_.allocate(bytes);
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    plain_.copy_data(to, from, bytes);
  }

 private:
  /// As of the allocator that an executor leaves in its place: a lower one would change nothing.
  static constexpr auto kHighest = std::numeric_limits<std::uint8_t>::max();

  int left_;
  c10::Allocator& plain_;
};

std::vector<AwayResidents::Resident> places_for(const std::vector<at::Tensor>& tensors) {
  std::vector<AwayResidents::Resident> residents;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    residents.push_back({tensors[i], static_cast<Bytes>(i) * kPlace, fmt::format("w{}", i)});
  }
  return residents;
}

/// In the order of their addresses.
at::Tensor elements_of(const at::Tensor& tensor) {
  return tensor.as_strided({tensor.numel()}, {1});
}

TEST(AwayResidents, KeepTheirBytesAndGiveBackTheirMemory) {
  std::mt19937 random(7);
  const auto store = std::make_shared<FailingStore>(kRoom);
  AwayResidents away(store);
  for (int round = 0; round < 20; ++round) {
    std::vector<at::Tensor> tensors, before, views;
    Bytes bytes = 0;
    for (int i = std::uniform_int_distribution(1, 5)(random); i > 0; --i) {
      tensors.push_back(at::rand({std::uniform_int_distribution(1, 90)(random), 17}));
      if (i % 2 == 0)
        tensors.back() = at::rand({5, 3, 2, 2}).contiguous(at::MemoryFormat::ChannelsLast);
      before.push_back(tensors.back().clone());
      views.push_back(elements_of(tensors.back()).slice(0, 3));
      bytes += static_cast<Bytes>(tensors.back().nbytes());
    }
    away.send(places_for(tensors));
    EXPECT_EQ(away.bytes(), bytes);
    for (const at::Tensor& tensor : tensors) {
      EXPECT_THAT([&] { tensor.const_data_ptr(); },
                  ThrowsMessage<c10::Error>(HasSubstr("lies in slower memory")));
      EXPECT_EQ(tensor.storage().nbytes(), tensor.nbytes());
    }
    away.bring_back();
    EXPECT_EQ(away.bytes(), 0);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      EXPECT_TRUE(at::equal(tensors[i], before[i]));
      EXPECT_TRUE(at::equal(views[i], elements_of(before[i]).slice(0, 3)));
    }
  }
}

TEST(AwayResidents, OfTensorsThatNobodyHasAnyMoreNothingIsRead) {
  const auto store = std::make_shared<FailingStore>(kRoom);
  AwayResidents away(store);
  {
    const at::Tensor tensor = at::rand({100});
    away.send(places_for({tensor}));
  }
  away.bring_back();
  EXPECT_EQ(away.bytes(), 0);
  EXPECT_EQ(store->counters().bytes_in, 0);
}

TEST(AwayResidents, RefuseMemoryThatIsNotATensorsOwn) {
  const auto store = std::make_shared<FailingStore>(kRoom);
  AwayResidents away(store);
  std::vector<float> foreign(8);
  const at::Tensor whole = at::rand({8, 8});
  for (const at::Tensor& tensor :
       {at::from_blob(foreign.data(), {8}), whole.slice(0, 1), whole.slice(0, 0, 4)}) {
    EXPECT_THAT([&] { away.send(places_for({at::rand({3}), tensor})); },
                ThrowsMessage<InputError>(HasSubstr("w1")));
    EXPECT_EQ(away.bytes(), 0);
  }
}

TEST(AwayResidents, NoCopyIsUnderWayWhereMemoryOrCopiesRunOut) {
  device::count_allocations();  // leaves its allocator in place, as an executor does
  for (int count = 0; count < 4; ++count) {
    for (const bool of_memory : {true, false}) {
      const auto store = std::make_shared<FailingStore>(kRoom);
      AwayResidents away(store);
      std::vector<at::Tensor> tensors, before;
      for (int i = 0; i < 4; ++i) {
        tensors.push_back(at::rand({1000}));
        before.push_back(tensors.back().clone());
      }
      away.send(places_for(tensors));
      if (of_memory) {
        const CountedMemory memory(count);
        EXPECT_THROW(away.bring_back(), std::bad_alloc);
      } else {
        store->reads_until_failure = count;
        EXPECT_THROW(away.bring_back(), std::bad_alloc);
        store->reads_until_failure = 1 << 20;
      }
      EXPECT_THAT(store->under_way, IsEmpty());
      EXPECT_GT(away.bytes(), 0);
      away.bring_back();
      for (std::size_t i = 0; i < tensors.size(); ++i)
        EXPECT_TRUE(at::equal(tensors[i], before[i]));
    }
  }
}

TEST(AwayResidents, StayWhereACopyOutFailsAndStayAwayWhereOneInFails) {
  const auto store = std::make_shared<FailingStore>(kRoom);
  AwayResidents away(store);
  const at::Tensor tensor = at::rand({100});
  const at::Tensor before = tensor.clone();
  store->fails = true;
  EXPECT_THROW(away.send(places_for({tensor})), Error);
  EXPECT_TRUE(at::equal(tensor, before));
  store->fails = false;
  away.send(places_for({tensor}));
  store->fails = true;
  EXPECT_THROW(away.bring_back(), Error);
  EXPECT_THAT([&] { tensor.const_data_ptr(); },
              ThrowsMessage<c10::Error>(HasSubstr("the disk is gone")));
  store->fails = false;
  away.bring_back();
  EXPECT_TRUE(at::equal(tensor, before));
}

}  // namespace
}  // namespace lowtide::runtime
