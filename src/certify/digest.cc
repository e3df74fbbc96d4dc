#include "certify/digest.h"

#include <bit>
#include <span>

namespace lowtide::certify {
namespace {

class Hash {
 public:
  void add(std::uint64_t word) {
    for (int shift = 0; shift < 64; shift += 8) {
      constexpr std::uint64_t kPrime = 0x100000001b3;
      state_ = (state_ ^ (word >> shift & 0xff)) * kPrime;
    }
  }
  void add(std::int64_t word) { add(static_cast<std::uint64_t>(word)); }
  void add(double number) { add(std::bit_cast<std::uint64_t>(number)); }
  /// The length first, so that neighbouring lists stay separate.
  void add(std::span<const std::int32_t> list) {
    add(static_cast<std::uint64_t>(list.size()));
    for (std::int32_t item : list) add(std::int64_t{item});
  }

  std::uint64_t state() const { return state_; }

 private:
  std::uint64_t state_ = 0xcbf29ce484222325;
};

void add_op(Hash& hash, const Op& op) {
  hash.add(op.inputs);
  hash.add(op.outputs);
  hash.add(op.cost);
  hash.add(op.workspace_bytes);
  hash.add(std::uint64_t{op.recomputable});
  hash.add(op.mutates);
  hash.add(static_cast<std::uint64_t>(op.inplace.size()));
  for (const InPlace& pair : op.inplace) {
    hash.add(std::int64_t{pair.output});
    hash.add(std::int64_t{pair.input});
  }
}

}  // namespace

std::uint64_t digest(const Graph& graph) {
  Hash hash;
  hash.add(static_cast<std::uint64_t>(graph.tensors().size()));
  for (const Tensor& tensor : graph.tensors()) {
    hash.add(tensor.bytes);
    hash.add(std::int64_t{tensor.alias_of});
    hash.add(std::uint64_t{tensor.kind == Kind::resident});
  }
  hash.add(static_cast<std::uint64_t>(graph.ops().size()));
  for (const Op& op : graph.ops()) add_op(hash, op);
  hash.add(graph.outputs());
  return hash.state();
}

}  // namespace lowtide::certify
