#pragma once

#include <functional>
#include <string>
#include <vector>

#include "builder/builder.h"

namespace lowtide::slices {

/// Copies a graph op by op into a new one, with changes on the way. `values`: by tensor of the old
/// graph, what stands for it as a whole; empty until it is made.
class Copier {
 public:
  /// Copies the residents.
  Copier(const Graph& graph, std::string name);

  Builder& builder() { return builder_; }
  bool has(TensorId id) const { return static_cast<bool>(values_[static_cast<std::size_t>(id)]); }
  Value value(TensorId id) const { return values_[static_cast<std::size_t>(id)]; }
  /// Hands the tensor's role on.
  void set(TensorId id, Value value);
  /// For a value that is not yet complete.
  void set_without_role(TensorId id, Value value) { values_[static_cast<std::size_t>(id)] = value; }
  /// Makes ops in the phase and the scope of an old one.
  std::vector<Value> make(const Op& op, const std::function<std::vector<Value>()>& ops);
  /// Copies an op as it is, and sets its results.
  void copy(const Op& op, const std::function<Value(TensorId)>& read);

  Graph build();

 private:
  const Graph& graph_;
  Builder builder_;
  std::vector<Value> values_;
};

}  // namespace lowtide::slices
