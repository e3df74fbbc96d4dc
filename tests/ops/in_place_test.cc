#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

#include "eager.h"
#include "examples.h"

/// Uses every permission to write over an operand: the kernel gets the operand's memory for its
/// result and must return the same bits.
namespace lowtide::ops {
namespace {

using testing::Eager;
using testing::Layout;
using testing::Operands;

/// Serves the framework's requests; serves one of them with memory that is in use.
class OverlayAllocator : public c10::Allocator {
 public:
  OverlayAllocator() { c10::SetCPUAllocator(this, kPriority); }
  ~OverlayAllocator() override { c10::SetCPUAllocator(usual_, kPriority); }

  /// Starts recording the served addresses; request `at` gets `memory`.
  void start(std::optional<std::size_t> at = {}, void* memory = nullptr) {
    served_.clear();
    at_ = at;
    memory_ = memory;
  }
  const std::vector<void*>& served() const { return served_; }

  c10::DataPtr allocate(std::size_t bytes) override {
    if (at_ == served_.size()) {
      served_.push_back(memory_);
      return {memory_, memory_, [](void*) {}, c10::Device(c10::kCPU)};
    }
    c10::DataPtr data = usual_->allocate(bytes);
    served_.push_back(data.get());
    return data;
  }
  c10::DeleterFnPtr raw_deleter() const override { return usual_->raw_deleter(); }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }

 private:
  static constexpr std::uint8_t kPriority = 100;
  c10::Allocator* usual_ = c10::GetCPUAllocator();
  std::vector<void*> served_;
  std::optional<std::size_t> at_;
  void* memory_ = nullptr;
};

/// Copies that share memory if the originals do.
std::vector<at::Tensor> copied(const std::vector<at::Tensor>& tensors) {
  std::map<void*, c10::Storage> storages;
  std::vector<at::Tensor> result;
  for (const at::Tensor& t : tensors) {
    const c10::Storage& original = t.storage();
    const at::Tensor bytes = at::empty({static_cast<int64_t>(original.nbytes())}, at::kByte);
    std::memcpy(bytes.data_ptr(), original.data(), original.nbytes());
    const auto kept = storages.emplace(original.mutable_data(), bytes.storage()).first;
    result.push_back(
        at::empty({0}, t.options()).set_(kept->second, t.storage_offset(), t.sizes(), t.strides()));
  }
  return result;
}

std::string bytes_of(const at::Tensor& tensor) {
  const at::Tensor dense = tensor.contiguous();
  return {static_cast<const char*>(dense.data_ptr()), dense.nbytes()};
}

/// The request that was served with memory still in use: a kernel may have got the same address
/// before, and freed it.
std::size_t last_request(const std::vector<void*>& served, const void* memory) {
  const auto found = std::ranges::find(served.rbegin(), served.rend(), memory);
  return static_cast<std::size_t>(served.rend() - found) - 1;
}

/// Runs the op once as usual and once over the operand; returns whether that was possible.
bool expect_same_bits(const Op& op, const InPlace& choice, const std::vector<at::Tensor>& inputs,
                      OverlayAllocator& allocator) {
  const runtime::Kernel kernel(op);
  at::manual_seed(7);
  allocator.start();
  const std::vector<at::Tensor> expected = kernel.run(inputs);
  const std::size_t request = last_request(allocator.served(), expected.front().storage().data());

  const std::vector<at::Tensor> mine = copied(inputs);
  void* operand = mine[static_cast<std::size_t>(choice.input)].storage().mutable_data();
  at::manual_seed(7);
  allocator.start(request, operand);
  const std::vector<at::Tensor> results = kernel.run(mine);
  allocator.start();
  EXPECT_EQ(results.front().storage().data(), operand) << op.type;
  for (std::size_t i = 0; i < results.size(); ++i) {
    EXPECT_EQ(bytes_of(results[i]), bytes_of(expected[i])) << op.type << " over " << choice.input;
  }
  return results.front().storage().data() == operand;
}

/// The ops that used a permission.
std::set<std::string> overwrite_all(DType dtype, Layout layout) {
  Builder builder("in place");
  for (const auto family : testing::families()) family({builder, dtype, layout});
  Eager eager(builder.data());
  OverlayAllocator allocator;
  std::set<std::string> used;
  for (const Op& op : builder.data().ops) {
    for (const InPlace& choice : op.inplace) {
      if (expect_same_bits(op, choice, eager.inputs(op), allocator)) used.insert(op.type);
    }
    eager.run(op);
  }
  return used;
}

class WrittenOver : public ::testing::TestWithParam<std::tuple<DType, Layout>> {};

TEST_P(WrittenOver, AnOperandGivesTheSameBits) {
  overwrite_all(std::get<0>(GetParam()), std::get<1>(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Examples, WrittenOver,
                         ::testing::Combine(::testing::Values(DType::f32, DType::f64),
                                            ::testing::Values(Layout::contiguous,
                                                              Layout::transposed,
                                                              Layout::channels_last)));

/// Elementwise ops whose result has an operand's type, and those that add to an operand.
TEST(InPlace, IsTriedForEveryOpThatMayWriteOverAnOperand) {
  const std::set<std::string> used = overwrite_all(DType::f32, Layout::contiguous);
  Builder builder("types");
  testing::call_pointwise({builder});
  std::set<std::string> expected = {"aten::addmm", "aten::baddbmm", "aten::scatter_add"};
  for (const Op& op : builder.data().ops) {
    const DType result = builder.type(op.outputs.front()).dtype;
    const bool same_type = std::ranges::any_of(
        op.inputs, [&](TensorId id) { return builder.type(id).dtype == result; });
    if (find_op(op.type)->pointwise && same_type) expected.insert(op.type);
  }
  EXPECT_EQ(used, expected);
}

}  // namespace
}  // namespace lowtide::ops
