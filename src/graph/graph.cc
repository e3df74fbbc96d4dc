#include "graph/graph.h"

#include <algorithm>
#include <utility>

#include "base/at.h"
#include "graph/validate.h"

namespace lowtide {
namespace {

/// Calls visit(tensor) once for each distinct input of the op.
template <typename Visit>
void for_each_distinct_input(const Op& op, Visit visit) {
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    const auto begin = op.inputs.begin();
    const auto here = begin + static_cast<std::ptrdiff_t>(i);
    if (std::find(begin, here, op.inputs[i]) == here) visit(op.inputs[i]);
  }
}

}  // namespace

Graph::Graph(GraphData data) : data_(std::move(data)) {
  validate(data_);
  index();
}

void Graph::index() {
  const std::size_t n = data_.tensors.size();
  producer_.assign(n, kNone);
  reader_begin_.assign(n + 1, 0);
  view_begin_.assign(n + 1, 0);
  view_op_.assign(data_.ops.size(), false);
  expires_.assign(data_.ops.size(), num_ops());

  for (OpId id = 0; id < num_ops(); ++id) {
    const Op& o = op(id);
    for (TensorId out : o.outputs) producer_[at(out)] = id;
    for_each_distinct_input(o, [&](TensorId in) { ++reader_begin_[at(in) + 1]; });
    const bool only_views =
        std::ranges::all_of(o.outputs, [&](TensorId out) { return tensor(out).alias_of != kNone; });
    view_op_[at(id)] = !o.outputs.empty() && o.mutates.empty() && only_views;
    executable_ = executable_ && !o.args.empty();
  }
  for (TensorId id = 0; id < num_tensors(); ++id) {
    const Tensor& t = tensor(id);
    if (t.kind == Kind::resident) resident_bytes_ += t.bytes;
    if (t.alias_of != kNone) ++view_begin_[at(t.alias_of) + 1];
  }
  for (std::size_t i = 0; i < n; ++i) {
    reader_begin_[i + 1] += reader_begin_[i];
    view_begin_[i + 1] += view_begin_[i];
  }
  readers_.resize(at(reader_begin_[n]));
  views_.resize(at(view_begin_[n]));
  std::vector<std::int32_t> next(reader_begin_.begin(), reader_begin_.end() - 1);
  for (OpId id = 0; id < num_ops(); ++id) {
    for_each_distinct_input(op(id), [&](TensorId in) { readers_[at(next[at(in)]++)] = id; });
  }
  next.assign(view_begin_.begin(), view_begin_.end() - 1);
  for (TensorId id = 0; id < num_tensors(); ++id) {
    const TensorId base = tensor(id).alias_of;
    if (base != kNone) views_[at(next[at(base)]++)] = id;
  }

  std::vector<OpId> next_writer(n, num_ops());
  for (OpId id = num_ops() - 1; id >= 0; --id) {
    for (TensorId in : op(id).inputs) {
      if (is_view_op(id)) continue;  // reads no bytes
      expires_[at(id)] = std::min(expires_[at(id)], next_writer[at(storage(in))]);
    }
    for (int position : op(id).mutates) next_writer[at(storage(op(id).inputs[at(position)]))] = id;
  }
}

std::span<const OpId> Graph::readers(TensorId id) const {
  return std::span(readers_).subspan(at(reader_begin_[at(id)]),
                                     at(reader_begin_[at(id) + 1] - reader_begin_[at(id)]));
}

std::span<const TensorId> Graph::views(TensorId id) const {
  return std::span(views_).subspan(at(view_begin_[at(id)]),
                                   at(view_begin_[at(id) + 1] - view_begin_[at(id)]));
}

std::string_view name(Kind kind) { return kind == Kind::resident ? "resident" : "value"; }

std::string_view name(Role role) {
  switch (role) {
    case Role::none: return "none";
    case Role::parameter: return "parameter";
    case Role::buffer: return "buffer";
    case Role::optimizer_state: return "optimizer_state";
    case Role::input: return "input";
    case Role::target: return "target";
    case Role::constant: return "constant";
    case Role::gradient: return "gradient";
    case Role::loss: return "loss";
  }
  return "none";
}

std::string_view name(Phase phase) {
  switch (phase) {
    case Phase::forward: return "forward";
    case Phase::backward: return "backward";
    case Phase::optimizer: return "optimizer";
  }
  return "forward";
}

}  // namespace lowtide
