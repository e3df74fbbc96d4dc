#include "slower/joined_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

#include "base/error.h"
#include "slower/faulty_calls.h"
#include "slower/file_store.h"
#include "slower/host_store.h"
#include "slower/some_values.h"
#include "support/temp_folder.h"

namespace lowtide::slower {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr Bytes kFirst = 10'001;  // at no multiple of a page

/// Host memory, and after it a file whose calls fail as a test likes.
struct MemoryAndFile {
  testing::TempFolder folder;
  FaultyCalls calls;
  JoinedStore store{
      std::make_unique<HostStore>(kFirst),
      std::make_unique<FileStore>(folder.path(), 2 * kMiB, FileOptions{.calls = &calls})};
};

TEST(JoinedStore, EachPartGivesBackWhatItGot) {
  MemoryAndFile made;
  JoinedStore& store = made.store;
  EXPECT_EQ(store.bytes(), kFirst + 2 * kMiB);
  EXPECT_EQ(store.first_bytes(), kFirst);
  EXPECT_GT(store.buffer_bytes(), 0);
  EXPECT_TRUE(store.serves_host_memory());
  const Value first(kFirst, 0, 1), second(2 * kMiB, 0, 2), back(kFirst, 0, 3),
      back_second(2 * kMiB, 0, 4);
  const Ticket out = store.write(kFirst, second.span(), "second");
  store.write(0, first.span(), "first");
  const Ticket in = store.read(0, back.span(), "first");
  const Ticket in_second = store.read(kFirst, back_second.span(), "second");
  for (Ticket ticket : {in_second, in, out}) store.wait(ticket);
  EXPECT_TRUE(store.done(in));
  EXPECT_TRUE(std::ranges::equal(back.span(), first.span()));
  EXPECT_TRUE(std::ranges::equal(back_second.span(), second.span()));
  EXPECT_EQ(store.counters().bytes_out, store.bytes());
  EXPECT_EQ(store.counters().bytes_in, store.bytes());
  const PlaceCounters of_places = store.counters_of_places();
  EXPECT_EQ(of_places.first.bytes_out, kFirst);
  EXPECT_EQ(of_places.first.bytes_in, kFirst);
  EXPECT_EQ(of_places.second.bytes_out, 2 * kMiB);
  EXPECT_EQ(of_places.second.bytes_in, 2 * kMiB);
}

TEST(JoinedStore, AFaultOfOnePartLeavesTheOther) {
  MemoryAndFile made;
  JoinedStore& store = made.store;
  const Value first(4096, 0, 1), second(4096, 0, 2), back(4096, 0, 3);
  made.calls.fail_writes(Fault::error, -1, ENOSPC);
  const Ticket failing = store.write(kFirst, second.span(), "second");
  store.wait(store.write(0, first.span(), "first"));
  EXPECT_THAT([&] { store.wait(failing); },
              ThrowsMessage<Error>(HasSubstr(made.folder.path().string())));
  store.wait(store.read(0, back.span(), "first"));
  EXPECT_TRUE(std::ranges::equal(back.span(), first.span()));
}

TEST(JoinedStore, RefusesRangesAcrossTheBorderAndOutside) {
  MemoryAndFile made;
  JoinedStore& store = made.store;
  const Value value(4096, 0, 1);
  EXPECT_THROW(store.write(kFirst - 4095, value.span(), "v"), std::logic_error);
  EXPECT_THROW(store.read(kFirst - 1, value.span(), "v"), std::logic_error);
  EXPECT_THROW(store.read(-1, value.span(), "v"), std::logic_error);
  EXPECT_THROW(store.read(store.bytes() - 4095, value.span(), "v"), std::logic_error);
  EXPECT_THROW(store.wait({}), std::logic_error);
  EXPECT_THROW((void)store.done({1}), std::logic_error);
}

TEST(JoinedStore, APartMayHaveNoBytes) {
  const Value value(4096, 0, 1), back(4096, 0, 2);
  for (const bool is_first : {true, false}) {
    auto memory = std::make_unique<HostStore>(4096);
    JoinedStore store(is_first ? std::move(memory) : nullptr,
                      is_first ? nullptr : std::move(memory));
    EXPECT_EQ(store.first_bytes(), is_first ? 4096 : 0);
    store.wait(store.write(0, value.span(), "v"));
    store.wait(store.read(0, back.span(), "v"));
    store.wait(store.write(4096, {}, "nothing"));
    EXPECT_TRUE(std::ranges::equal(back.span(), value.span()));
  }
  EXPECT_THROW(JoinedStore(nullptr, nullptr), std::logic_error);
}

}  // namespace
}  // namespace lowtide::slower
