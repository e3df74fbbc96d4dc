#include "train/hash.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <set>

namespace lowtide::train {
namespace {

TEST(Hash, TellsEverySingleBitApart) {
  std::string bytes(37, 'x');
  std::set<std::uint64_t> seen = {hash_bytes(bytes)};
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::string changed = bytes;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << (bit % 8)));
    seen.insert(hash_bytes(changed));
  }
  EXPECT_EQ(seen.size(), 8 * bytes.size() + 1);
}

TEST(Hash, TellsLengthsOfZerosApart) {
  std::set<std::uint64_t> seen;
  for (std::size_t length = 0; length < 40; ++length)
    seen.insert(hash_bytes(std::string(length, '\0')));
  EXPECT_EQ(seen.size(), 40u);
}

TEST(Hash, TellsMinusZeroFromZeroAndSwappedElements) {
  EXPECT_NE(fingerprint(at::tensor({0.0f})), fingerprint(at::tensor({-0.0f})));
  EXPECT_NE(fingerprint(at::tensor({1.0f, 2.0f})), fingerprint(at::tensor({2.0f, 1.0f})));
}

TEST(Hash, SeesOnlyTheElementsOfAView) {
  at::Tensor a = at::arange(24, at::kFloat).reshape({4, 6});
  at::Tensor b = a.clone();
  b.select(1, 5).fill_(-1);  // outside the views below
  EXPECT_EQ(fingerprint(a.narrow(1, 0, 3)), fingerprint(b.narrow(1, 0, 3)));
  EXPECT_NE(fingerprint(a.narrow(1, 3, 3)), fingerprint(b.narrow(1, 3, 3)));
}

TEST(Hash, PacksAnyStridesInRowMajorOrder) {
  const at::Tensor base = at::arange(2 * 3 * 4 * 5, at::kInt).reshape({2, 3, 4, 5});
  for (const at::Tensor& view :
       {base, base.permute({3, 1, 0, 2}), base.transpose(0, 3), base.select(2, 1),
        base.slice(3, 1, 5, 2), base.select(0, 0).unsqueeze(1).expand({3, 7, 4, 5}),
        base.flatten()[3]}) {
    const at::Tensor expected = view.contiguous();
    EXPECT_EQ(packed_bytes(view), bytes_of(expected)) << view.sizes() << view.strides();
  }
}

TEST(Hash, TakesEmptyTensors) {
  const at::Tensor empty = at::empty({0, 3});
  EXPECT_EQ(packed_bytes(empty), "");
  EXPECT_EQ(fingerprint(empty), fingerprint(at::empty({0, 3})));
}

}  // namespace
}  // namespace lowtide::train
