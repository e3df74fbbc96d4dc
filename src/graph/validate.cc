#include "graph/validate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>

#include "base/error.h"

namespace lowtide {
namespace {

constexpr Bytes kMostBytes = Bytes{1} << 53;

template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw InputError(fmt::format(format, std::forward<Args>(args)...));
}

bool in_range(std::int64_t index, std::size_t size) {
  return index >= 0 && static_cast<std::size_t>(index) < size;
}

/// Checks one graph; each method throws for the first broken rule of one kind.
class Validator {
 public:
  explicit Validator(const GraphData& data) : data_(data), producer_(data.tensors.size(), kNone) {}

  void check() {
    check_header();
    for (std::size_t i = 0; i < data_.tensors.size(); ++i) check_tensor(static_cast<TensorId>(i));
    for (std::size_t i = 0; i < data_.ops.size(); ++i) check_op(static_cast<OpId>(i));
    check_sums();
    find_producers();
    check_producers();
    check_order();
    check_outputs();
  }

 private:
  const Tensor& tensor(TensorId id) const { return data_.tensors[static_cast<std::size_t>(id)]; }
  const Op& op(OpId id) const { return data_.ops[static_cast<std::size_t>(id)]; }
  OpId& producer(TensorId id) { return producer_[static_cast<std::size_t>(id)]; }
  std::string tensor_text(TensorId id) const {
    return fmt::format("tensor {} (\"{}\")", id, tensor(id).name);
  }
  std::string op_text(OpId id) const { return fmt::format("op {} (\"{}\")", id, op(id).name); }

  void check_header() const {
    constexpr std::array<std::string_view, 3> kUnits{"us", "ns", "flops"};
    if (std::ranges::find(kUnits, data_.cost_unit) == kUnits.end()) {
      fail("cost_unit is \"{}\"; it must be us, ns or flops", data_.cost_unit);
    }
    if (data_.after_bytes < 0 || data_.after_bytes > kMostBytes) {
      fail("after_bytes is {}; it must be from 0 to 2^53", data_.after_bytes);
    }
    const auto alignment = static_cast<std::uint64_t>(data_.alignment);
    if (data_.alignment < kArenaAlignment || !std::has_single_bit(alignment)) {
      fail("alignment is {}; it must be a power of two from {} on", data_.alignment,
           kArenaAlignment);
    }
    constexpr auto kMost = static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max());
    if (data_.tensors.size() > kMost || data_.ops.size() > kMost) {
      fail("the graph has more than {} tensors or ops", kMost);
    }
  }

  // ---- Tensors ----

  void check_tensor(TensorId id) const {
    const Tensor& t = tensor(id);
    if (t.bytes < 0) fail("{} has {} bytes; sizes must not be negative", tensor_text(id), t.bytes);
    if (t.alias_of != kNone) check_view(id);
    check_shape(id);
    if (t.gradient_of != kNone && !in_range(t.gradient_of, data_.tensors.size())) {
      fail("{} has gradient_of {}, which is no tensor of the graph", tensor_text(id),
           t.gradient_of);
    }
    if (t.init && !(std::isfinite(t.init->a) && std::isfinite(t.init->b))) {
      fail("{} has an initializer with a number that is not finite", tensor_text(id));
    }
  }

  void check_view(TensorId id) const {
    const Tensor& t = tensor(id);
    if (!in_range(t.alias_of, data_.tensors.size())) {
      fail("{} has alias_of {}, which is no tensor of the graph", tensor_text(id), t.alias_of);
    }
    if (t.alias_of == id) fail("{} is a view of itself", tensor_text(id));
    const TensorId further = tensor(t.alias_of).alias_of;
    if (further != kNone) {
      fail("{} is a view of {}, which is a view itself; alias_of must name the tensor that owns "
           "the bytes",
           tensor_text(id), tensor_text(t.alias_of));
    }
    if (t.bytes != 0) {
      fail("{} is a view and has {} bytes; a view owns none, so its bytes must be 0",
           tensor_text(id), t.bytes);
    }
    if (t.kind == Kind::resident) {
      fail("{} is a resident view; views are made by ops, so its kind must be value",
           tensor_text(id));
    }
  }

  void check_shape(TensorId id) const {
    const Tensor& t = tensor(id);
    const auto negative = [](std::int64_t size) { return size < 0; };
    if (std::ranges::any_of(t.shape, negative) || std::ranges::any_of(t.strides, negative)) {
      fail("{} has a negative size or stride: shape [{}], strides [{}]", tensor_text(id),
           fmt::join(t.shape, ", "), fmt::join(t.strides, ", "));
    }
    if (!t.strides.empty() && t.strides.size() != t.shape.size()) {
      fail("{} has {} strides for {} dimensions", tensor_text(id), t.strides.size(),
           t.shape.size());
    }
    std::int64_t bytes = t.dtype ? element_bytes(*t.dtype) : 1;
    if (std::ranges::find(t.shape, 0) != t.shape.end()) return;
    for (std::int64_t size : t.shape) {
      if (__builtin_mul_overflow(bytes, size, &bytes)) {
        fail("{} has shape [{}], whose bytes overflow 63 bits", tensor_text(id),
             fmt::join(t.shape, ", "));
      }
    }
  }

  // ---- Ops ----

  void check_op(OpId id) const {
    const Op& o = op(id);
    check_indices(id, o.inputs, "reads");
    check_indices(id, o.outputs, "makes");
    if (!std::isfinite(o.cost) || o.cost < 0) {
      fail("{} has cost {}; costs must be finite and not negative", op_text(id), o.cost);
    }
    if (o.workspace_bytes < 0) {
      fail("{} has {} bytes of workspace; sizes must not be negative", op_text(id),
           o.workspace_bytes);
    }
    if (!o.inplace.empty()) check_in_place(id);
    if (!o.mutates.empty()) check_mutated(id);
    for (const Argument& argument : o.args) check_argument(id, argument);
    for (const Allocation& allocation : o.allocations) check_allocation(id, allocation);
  }

  void check_indices(OpId id, const std::vector<TensorId>& tensors, std::string_view verb) const {
    for (TensorId t : tensors) {
      if (!in_range(t, data_.tensors.size())) {
        fail("{} {} tensor {}, which does not exist: the graph has {}", op_text(id), verb, t,
             data_.tensors.size());
      }
    }
  }

  void check_in_place(OpId id) const {
    const Op& o = op(id);
    std::vector<int> written;
    for (const InPlace& pair : o.inplace) {
      if (!in_range(pair.output, o.outputs.size()) || !in_range(pair.input, o.inputs.size())) {
        fail("{} has the in-place pair [{}, {}], but only {} outputs and {} inputs", op_text(id),
             pair.output, pair.input, o.outputs.size(), o.inputs.size());
      }
      const TensorId output = o.outputs[static_cast<std::size_t>(pair.output)];
      if (tensor(output).alias_of != kNone) {
        fail("{} may write output {} in place, but {} is a view and takes no bytes", op_text(id),
             pair.output, tensor_text(output));
      }
      if (std::ranges::find(written, pair.output) != written.end()) {
        fail("{} has two in-place pairs for output {}", op_text(id), pair.output);
      }
      written.push_back(pair.output);
    }
  }

  void check_mutated(OpId id) const {
    const Op& o = op(id);
    for (std::size_t i = 0; i < o.mutates.size(); ++i) {
      const int position = o.mutates[i];
      if (!in_range(position, o.inputs.size())) {
        fail("{} mutates its input {}, but has only {}", op_text(id), position, o.inputs.size());
      }
      if (std::find(o.mutates.begin(), o.mutates.begin() + static_cast<std::ptrdiff_t>(i),
                    position) != o.mutates.begin() + static_cast<std::ptrdiff_t>(i)) {
        fail("{} lists its input {} twice under mutates", op_text(id), position);
      }
      const TensorId input = o.inputs[static_cast<std::size_t>(position)];
      const TensorId base = tensor(input).alias_of == kNone ? input : tensor(input).alias_of;
      if (tensor(base).kind != Kind::resident) {
        fail("{} mutates {}, which is not resident; an op may only write resident tensors",
             op_text(id), tensor_text(input));
      }
    }
  }

  void check_argument(OpId id, const Argument& argument) const {
    const auto check = [&](int position) {
      if (!in_range(position, op(id).inputs.size())) {
        fail("{} has an argument that takes its input {}, but it has only {}", op_text(id),
             position, op(id).inputs.size());
      }
    };
    if (const auto* one = std::get_if<TensorArg>(&argument)) check(one->position);
    if (const auto* list = std::get_if<TensorListArg>(&argument)) {
      for (int position : list->positions) {
        if (position != kNone) check(position);
      }
    }
  }

  void check_allocation(OpId id, const Allocation& a) const {
    const Op& o = op(id);
    if (a.bytes < 0 || a.offset < 0) {
      fail("{} has an allocation of {} bytes at {}; neither may be negative", op_text(id), a.bytes,
           a.offset);
    }
    if (a.output != -1 && !in_range(a.output, o.outputs.size())) {
      fail("{} has an allocation for its output {}, but has only {}", op_text(id), a.output,
           o.outputs.size());
    }
    Bytes end = 0;
    const bool too_large = __builtin_add_overflow(a.offset, a.bytes, &end);
    if (a.output == -1 && (too_large || end > o.workspace_bytes)) {
      fail("{} has scratch of {} bytes at {}, beyond its workspace of {}", op_text(id), a.bytes,
           a.offset, o.workspace_bytes);
    }
  }

  // ---- The whole ----

  /// Prevents overflow in later sums of live bytes, arenas and costs: a plan may run an op
  /// any number of times, and addresses leave gaps. Such byte counts are exact as doubles,
  /// too.
  void check_sums() const {
    constexpr double kMostCost = 1e100;
    Bytes left = kMostBytes;
    const auto take = [&left](Bytes bytes) {
      const bool fits = bytes <= left;
      if (fits) left -= bytes;
      return fits;
    };
    double cost = 0;
    for (std::size_t i = 0; i < data_.tensors.size(); ++i) {
      if (take(data_.tensors[i].bytes)) continue;
      fail("the bytes of all tensors together exceed 2^53 at {}",
           tensor_text(static_cast<TensorId>(i)));
    }
    for (std::size_t i = 0; i < data_.ops.size(); ++i) {
      if (!take(data_.ops[i].workspace_bytes)) {
        fail("the bytes of all tensors and workspaces together exceed 2^53 at {}",
             op_text(static_cast<OpId>(i)));
      }
      cost += data_.ops[i].cost;
    }
    if (cost > kMostCost) fail("the costs of all ops together exceed {}", kMostCost);
  }

  void find_producers() {
    for (OpId id = 0; id < static_cast<OpId>(data_.ops.size()); ++id) {
      for (TensorId out : op(id).outputs) {
        if (tensor(out).kind == Kind::resident) {
          fail("{} makes {}, which is resident and so exists before the first op", op_text(id),
               tensor_text(out));
        }
        if (producer(out) == id) fail("{} makes {} twice", op_text(id), tensor_text(out));
        if (producer(out) != kNone) {
          fail("{} has two producers: {} and {}", tensor_text(out), op_text(producer(out)),
               op_text(id));
        }
        producer(out) = id;
      }
    }
  }

  void check_producers() {
    for (TensorId id = 0; id < static_cast<TensorId>(data_.tensors.size()); ++id) {
      if (tensor(id).kind == Kind::value && producer(id) == kNone) {
        fail("{} is a value that no op makes", tensor_text(id));
      }
    }
  }

  void check_order() {
    for (OpId id = 0; id < static_cast<OpId>(data_.ops.size()); ++id) {
      for (TensorId in : op(id).inputs) {
        if (producer(in) >= id) refuse_order(id, in);
      }
      check_views_made(id);
    }
  }

  /// The base of a view must exist before the view, also among the outputs of one op, and the op
  /// must have it: then it is in memory while the op runs.
  void check_views_made(OpId id) {
    const std::vector<TensorId>& outputs = op(id).outputs;
    for (auto out = outputs.begin(); out != outputs.end(); ++out) {
      const TensorId base = tensor(*out).alias_of;
      const bool late = base != kNone && (producer(base) > id ||
                                          std::find(out, outputs.end(), base) != outputs.end());
      if (late) {
        fail("{} makes {}, a view of {}, before {} makes that", op_text(id), tensor_text(*out),
             tensor_text(base), op_text(producer(base)));
      }
      if (base != kNone && producer(base) != id && !reads_storage(id, base)) {
        fail("{} makes {}, a view of {}, which it neither reads nor makes", op_text(id),
             tensor_text(*out), tensor_text(base));
      }
    }
  }

  bool reads_storage(OpId id, TensorId storage) const {
    return std::ranges::any_of(op(id).inputs, [&](TensorId in) {
      return in == storage || tensor(in).alias_of == storage;
    });
  }

  [[noreturn]] void refuse_order(OpId reader, TensorId read) {
    const std::vector<OpId> cycle = find_cycle(reader, producer(read));
    if (cycle.empty()) {
      fail("{} reads {} before {} makes it; list ops in topological order", op_text(reader),
           tensor_text(read), op_text(producer(read)));
    }
    constexpr std::size_t kMostNamed = 8;
    std::string path;
    for (OpId id : std::span(cycle).first(std::min(cycle.size(), kMostNamed))) {
      path += op_text(id) + " -> ";
    }
    if (cycle.size() > kMostNamed) path += fmt::format("{} more -> ", cycle.size() - kMostNamed);
    fail("the ops form a cycle, each needing the one before: {}{}", path, op_text(cycle.front()));
  }

  /// A path of ops from `start` to `end` along producer-to-reader edges, if there is one: with the
  /// edge from `end` to `start` it forms a cycle. Searches backwards from `end`.
  std::vector<OpId> find_cycle(OpId start, OpId end) {
    std::vector<OpId> reader(data_.ops.size(), kNone);  // the next op on the path
    std::vector<OpId> open{end};
    reader[static_cast<std::size_t>(end)] = end;
    while (!open.empty() && reader[static_cast<std::size_t>(start)] == kNone) {
      const OpId id = open.back();
      open.pop_back();
      for (TensorId in : op(id).inputs) {
        const OpId maker = producer(in);
        if (maker == kNone || reader[static_cast<std::size_t>(maker)] != kNone) continue;
        reader[static_cast<std::size_t>(maker)] = id;
        open.push_back(maker);
      }
    }
    if (reader[static_cast<std::size_t>(start)] == kNone) return {};
    std::vector<OpId> cycle{start};
    while (cycle.back() != end) cycle.push_back(reader[static_cast<std::size_t>(cycle.back())]);
    return cycle;
  }

  void check_outputs() const {
    std::vector<bool> seen(data_.tensors.size());
    for (TensorId id : data_.outputs) {
      if (!in_range(id, data_.tensors.size())) {
        fail("the graph's outputs list tensor {}, which does not exist: the graph has {}", id,
             data_.tensors.size());
      }
      if (seen[static_cast<std::size_t>(id)]) {
        fail("the graph's outputs list {} twice", tensor_text(id));
      }
      seen[static_cast<std::size_t>(id)] = true;
    }
  }

  const GraphData& data_;
  std::vector<OpId> producer_;  // by tensor
};

}  // namespace

void validate(const GraphData& data) { Validator(data).check(); }

}  // namespace lowtide
