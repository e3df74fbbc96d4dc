#include "slices/segments.h"

#include <algorithm>
#include <map>
#include <optional>

#include "base/at.h"

namespace lowtide::slices {
namespace {

/// Between two narrow places more than so many times their bytes is alive.
constexpr Bytes kWider = 2;

/// Where in a pass a storage is made and read for the last time.
struct Life {
  std::size_t first;
  std::size_t last;
};

std::map<TensorId, Life> lives_in(const Graph& graph, std::span<const OpId> pass) {
  std::map<TensorId, Life> lives;
  for (std::size_t i = 0; i < pass.size(); ++i) {
    const Op& op = graph.op(pass[i]);
    for (TensorId id : op.inputs) {
      const auto life = lives.find(graph.storage(id));
      if (life != lives.end()) life->second.last = i;
    }
    for (TensorId id : op.outputs) {
      if (graph.storage(id) == id) lives.insert({id, {i, i}});
    }
  }
  return lives;
}

/// Behind each op: the bytes that the pass has made by then and still reads.
std::vector<Bytes> alive_behind(const Graph& graph, std::span<const OpId> pass) {
  std::vector<Bytes> change(pass.size() + 1, 0);
  for (const auto& [id, life] : lives_in(graph, pass)) {
    change[life.first] += graph.tensor(id).bytes;
    change[life.last] -= graph.tensor(id).bytes;
  }
  Bytes total = 0;
  std::vector<Bytes> alive;
  for (std::size_t i = 0; i < pass.size(); ++i) alive.push_back(total += change[i]);
  return alive;
}

/// The positions at which a new segment begins: behind the narrowest between two wide ones.
std::vector<std::size_t> narrow_places(std::span<const Bytes> alive) {
  std::vector<std::size_t> places;
  Bytes widest = 0;
  std::optional<std::size_t> narrowest;
  for (std::size_t i = 0; i + 1 < alive.size(); ++i) {
    const Bytes size = alive[i];
    if (narrowest && size > kWider * alive[*narrowest]) {
      places.push_back(*narrowest + 1);
      widest = size;
      narrowest.reset();
    }
    widest = std::max(widest, size);
    if (widest > kWider * size && (!narrowest || size <= alive[*narrowest])) narrowest = i;
  }
  return places;
}

}  // namespace

std::vector<std::vector<OpId>> passes(const Graph& graph) {
  std::vector<std::vector<OpId>> found;
  for (OpId id = 0; id < graph.num_ops(); ++id) {
    const bool begins = id == 0 || graph.op(id).phase != graph.op(id - 1).phase;
    if (begins) found.emplace_back();
    found.back().push_back(id);
  }
  return found;
}

std::vector<std::vector<OpId>> segments(const Graph& graph, std::span<const OpId> pass) {
  std::vector<std::vector<OpId>> found;
  std::size_t begin = 0;
  for (std::size_t end : narrow_places(alive_behind(graph, pass))) {
    const std::span<const OpId> segment = pass.subspan(begin, end - begin);
    found.emplace_back(segment.begin(), segment.end());
    begin = end;
  }
  found.emplace_back(pass.begin() + static_cast<std::ptrdiff_t>(begin), pass.end());
  return found;
}

}  // namespace lowtide::slices
