#include "certify/relaxed.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace lowtide::certify {
namespace {

/// Values below this share of the largest count no bytes, so that the problem stays small.
constexpr double kTinyShare = 1e-3;

class Relaxation {
 public:
  Relaxation(const Graph& graph, const Certificate::Moves& moves)
      : graph_(graph), moves_(moves), data_(graph.data()) {
    drop_bytes();
  }

  Relaxed make() {
    data_.ops.clear();
    for (OpId id = 0; id < graph_.num_ops(); ++id) add(graph_.op(id));
    return {Graph(std::move(data_)), std::move(loads_)};
  }

 private:
  Bytes& bytes_of(TensorId id) { return data_.tensors[static_cast<std::size_t>(id)].bytes; }

  bool is_value(TensorId id) const {
    return graph_.tensor(id).kind == Kind::value && graph_.tensor(id).alias_of == kNone;
  }

  /// Of residents that may be away; of tiny values; and of storages that an op makes together with
  /// a view, which would come before its storage. With fewer bytes, more plans fit.
  void drop_bytes() {
    for (TensorId id = 0; moves_.residents && id < graph_.num_tensors(); ++id) {
      if (graph_.tensor(id).kind == Kind::resident) bytes_of(id) = 0;
    }
    Bytes largest = 0;
    for (TensorId id = 0; id < graph_.num_tensors(); ++id) {
      if (is_value(id)) largest = std::max(largest, bytes_of(id));
    }
    const auto tiny = static_cast<Bytes>(kTinyShare * static_cast<double>(largest));
    for (TensorId id = 0; id < graph_.num_tensors(); ++id) {
      if (is_value(id) && bytes_of(id) <= tiny) bytes_of(id) = 0;
    }
    for (const Op& op : graph_.ops()) {
      for (TensorId out : op.outputs) {
        const TensorId storage = graph_.storage(out);
        if (storage != out && std::ranges::count(op.outputs, storage) > 0) bytes_of(storage) = 0;
      }
    }
  }

  void add(Op op) {
    op.cost *= moves_.weight;
    op.allocations.clear();  // they name outputs
    const Bytes made = bytes_made(op);
    if (made == 0) return data_.ops.push_back(std::move(op));
    std::vector<Op> loads;
    for (TensorId& out : op.outputs) {
      if (bytes_of(out) > 0) loads.push_back(load(op, made, out));
    }
    op.workspace_bytes += made;  // while the op runs, they are there too
    data_.ops.push_back(std::move(op));
    for (Op& one : loads) {
      loads_.push_back(static_cast<OpId>(data_.ops.size()));
      data_.ops.push_back(std::move(one));
    }
  }

  Bytes bytes_made(const Op& op) {
    Bytes bytes = 0;
    for (TensorId out : op.outputs) bytes += bytes_of(out);  // 0 for a view
    return bytes;
  }

  /// Puts a token of no bytes in the value's place, from which the load makes the value.
  Op load(const Op& op, Bytes made, TensorId& out) {
    const Tensor& value = graph_.tensor(out);
    Op load;
    load.name = "load " + value.name;
    load.outputs = {out};
    const double share = static_cast<double>(value.bytes) / static_cast<double>(made);
    load.cost = (1 - moves_.weight) * moves_.lanes.in.time(value.bytes);
    if (op.recomputable) load.cost = std::min(load.cost, share * op.cost);
    Tensor token;
    token.name = "made " + value.name;
    out = static_cast<TensorId>(data_.tensors.size());
    load.inputs = {out};
    data_.tensors.push_back(std::move(token));
    return load;
  }

  const Graph& graph_;
  const Certificate::Moves& moves_;
  GraphData data_;
  std::vector<OpId> loads_;
};

}  // namespace

Relaxed relaxed(const Graph& graph, const Certificate::Moves& moves) {
  return Relaxation(graph, moves).make();
}

}  // namespace lowtide::certify
