#include "support/same_graph.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "graph/boundary.h"
#include "graph/permuted.h"
#include "support/chance.h"

namespace lowtide::testing {
namespace {

std::vector<int> shuffled_numbers(int count, std::uint64_t seed) {
  std::vector<int> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  Chance chance(seed);
  for (int i = count; i > 1; --i) std::swap(numbers[i - 1], numbers[chance.below(i)]);
  return numbers;
}

/// Tensor i becomes tensor place[i].
Graph with_tensors_at(const Graph& graph, const std::vector<int>& place) {
  GraphData data = graph.data();
  const auto move = [&](TensorId& id) {
    if (id != kNone) id = place[id];
  };
  for (TensorId id = 0; id < graph.num_tensors(); ++id) {
    Tensor tensor = graph.tensor(id);
    tensor.name = "renamed" + std::to_string(place[id]);
    move(tensor.alias_of);
    move(tensor.gradient_of);
    data.tensors[place[id]] = std::move(tensor);
  }
  for (Op& op : data.ops) {
    op.name = "op " + op.name;
    std::ranges::for_each(op.inputs, move);
    std::ranges::for_each(op.outputs, move);
  }
  std::ranges::for_each(data.outputs, move);
  return Graph(std::move(data));
}

bool writes_what_is_read(const Graph& graph, const Op& writer, const Op& reader) {
  return std::ranges::any_of(writer.mutates, [&](int position) {
    const TensorId written = graph.storage(writer.inputs[position]);
    return std::ranges::any_of(reader.inputs,
                               [&](TensorId read) { return graph.storage(read) == written; });
  });
}

bool makes_what_is_used(const Graph& graph, OpId maker, const Op& user) {
  const auto is_made = [&](TensorId used) {
    return graph.producer(used) == maker || graph.producer(graph.storage(used)) == maker;
  };
  return std::ranges::any_of(user.inputs, is_made) || std::ranges::any_of(user.outputs, is_made);
}

/// Whether the first of two ops has to stay before the second.
bool must_precede(const Graph& graph, OpId first, OpId second) {
  const Op& before = graph.op(first);
  const Op& after = graph.op(second);
  return makes_what_is_used(graph, first, after) || writes_what_is_read(graph, before, after) ||
         writes_what_is_read(graph, after, before) || is_boundary(before) || is_boundary(after);
}

}  // namespace

Graph relabelled(const Graph& graph, std::uint64_t seed) {
  return with_tensors_at(graph, shuffled_numbers(graph.num_tensors(), seed));
}

Graph reordered(const Graph& graph, std::uint64_t seed) {
  Chance chance(seed);
  std::vector<OpId> left(graph.ops().size()), order;
  std::iota(left.begin(), left.end(), 0);
  while (!left.empty()) {
    std::vector<OpId> ready;
    for (auto op = left.begin(); op != left.end(); ++op) {
      const bool waits = std::any_of(
          left.begin(), op, [&](OpId earlier) { return must_precede(graph, earlier, *op); });
      if (!waits) ready.push_back(*op);
    }
    order.push_back(chance.pick(ready));
    std::erase(left, order.back());
  }
  return permuted(graph, order);
}

}  // namespace lowtide::testing
