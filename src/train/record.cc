#include "train/record.h"

#include <fmt/format.h>

#include <algorithm>

#include "train/checkpoint.h"
#include "train/hash.h"
#include "train/safetensors.h"

namespace lowtide::train {
namespace {

std::string entry_text(const Graph& graph, const RunRecord::Entry& entry) {
  if (entry.tensor == kNone) return "the state of the random generator after the last step";
  const Tensor& tensor = graph.tensor(entry.tensor);
  if (tensor.role == Role::gradient) {
    const std::string& of = graph.tensor(tensor.gradient_of).name;
    return fmt::format("the gradient of {} in step {}", of, entry.step);
  }
  if (tensor.role == Role::loss) return fmt::format("the loss of step {}", entry.step);
  return fmt::format("{} after the last step", tensor.name);
}

}  // namespace

std::vector<TensorId> tensors_with_role(const Graph& graph, Role role) {
  std::vector<TensorId> found;
  for (TensorId id = 0; id < graph.num_tensors(); ++id) {
    if (graph.tensor(id).role == role) found.push_back(id);
  }
  return found;
}

Recorder::Recorder(const Graph& graph, runtime::Executor& executor)
    : graph_(graph),
      executor_(executor),
      gradients_(tensors_with_role(graph, Role::gradient)),
      hashes_(static_cast<std::size_t>(graph.num_tensors())) {
  executor_.watch(gradients_, [this](TensorId id, const at::Tensor& tensor) { see(id, tensor); });
}

void Recorder::see(TensorId id, const at::Tensor& tensor) {
  hashes_[static_cast<std::size_t>(id)] = fingerprint(tensor);
  if (keep_) kept_[id] = packed_bytes(tensor);
}

void Recorder::after_step(std::int64_t step) {
  for (const TensorId id : graph_.outputs()) {
    record_.entries.push_back({id, step, fingerprint(executor_.output(id))});
  }
  for (const TensorId id : gradients_) {
    record_.entries.push_back({id, step, hashes_[static_cast<std::size_t>(id)]});
  }
}

void Recorder::save_gradients(const std::filesystem::path& path) const {
  std::vector<StoredTensor> stored;
  for (const auto& [id, bytes] : kept_) {
    const Tensor& gradient = graph_.tensor(id);
    stored.push_back({graph_.tensor(gradient.gradient_of).name, gradient.dtype.value_or(DType::f32),
                      gradient.shape, bytes});
  }
  write_safetensors(path, stored, {{"format", "pt"}});
}

RunRecord Recorder::finish() {
  for (TensorId id = 0; id < graph_.num_tensors(); ++id) {
    if (!is_state(graph_.tensor(id))) continue;
    record_.entries.push_back({id, 0, fingerprint(executor_.resident(id))});
  }
  record_.entries.push_back({kNone, 0, fingerprint(generator_state())});
  return std::move(record_);
}

std::optional<std::string> first_difference(const Graph& graph, const RunRecord& a,
                                            const RunRecord& b) {
  const auto [in_a, in_b] =
      std::mismatch(a.entries.begin(), a.entries.end(), b.entries.begin(), b.entries.end());
  if (in_a == a.entries.end() && in_b == b.entries.end()) return std::nullopt;
  return entry_text(graph, in_a != a.entries.end() ? *in_a : *in_b);
}

}  // namespace lowtide::train
