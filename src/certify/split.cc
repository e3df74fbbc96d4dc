#include "certify/split.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "certify/flaw.h"

namespace lowtide::certify {
namespace {

/// The one value of an op, first made in stage `made` and read last in stage `last`.
struct Whole {
  TensorId value;
  int made, last;
};

Whole whole_value(const Graph& graph, const Stages& stages, TensorId id) {
  if (id < 0 || id >= graph.num_tensors()) {
    refuse(Flaw::bad_index, "there is no tensor {}; the graph has {}", id, graph.num_tensors());
  }
  const OpId maker = graph.producer(id);
  const bool is_whole = maker != kNone && stages.of_op[maker] != kNone &&
                        graph.op(maker).outputs == std::vector{id} && graph.storage(id) == id &&
                        !stages.readers[id].empty();
  if (!is_whole) {
    refuse(Flaw::bad_split, "{} is not the only result of its op, or is not needed",
           tensor_text(graph, id));
  }
  return {id, stages.of_op[maker], stages.readers[id].back()};
}

bool reads(const Stages& stages, int t, TensorId value) {
  return std::ranges::binary_search(stages.readers[value], t);
}

std::set<OpId> absences(const Stages& stages, const Whole& whole) {
  std::set<OpId> ops{kNone};
  for (int t = whole.made + 1; t < whole.last; ++t) {
    const bool may_return = t < stages.last_rerun[whole.made];
    if (may_return && !reads(stages, t, whole.value)) ops.insert(stages.ops[t]);
  }
  return ops;
}

/// Renumbers the stages from `at` on, for one new stage.
void shift(Stages& stages, int at) {
  const auto now = [&](int& t) { t += t >= at; };
  std::ranges::for_each(stages.of_op, now);
  std::ranges::for_each(stages.last_rerun, now);
  for (std::vector<int>& readers : stages.readers) std::ranges::for_each(readers, now);
}

/// Inserts stage `at`, in which the op of stage `made` runs again.
void insert_run(const Graph& graph, Stages& stages, int at, int made) {
  shift(stages, at);
  const std::vector<TensorId> reads = stages.reads[made];
  for (TensorId in : reads) {
    std::vector<int>& readers = stages.readers[in];
    readers.insert(std::ranges::lower_bound(readers, at), at);
  }
  const Bytes needs = stages.own_needs[made];
  stages.of_op.push_back(at);
  stages.cost += graph.op(stages.ops[made]).cost;
  stages.ops.insert(stages.ops.begin() + at, graph.num_ops() + 1);
  stages.reads.insert(stages.reads.begin() + at, reads);
  stages.last_rerun.insert(stages.last_rerun.begin() + at, kNone);
  stages.own_needs.insert(stages.own_needs.begin() + at, needs);
}

/// After stage `from` the value is known to be live; before, only at its readers.
void take_out(const Graph& graph, Stages& stages, const Whole& whole, int from) {
  for (int t = from + 1; t < whole.last; ++t) {
    if (!reads(stages, t, whole.value)) stages.own_needs[t] += graph.tensor(whole.value).bytes;
  }
  for (int t : stages.readers[whole.value]) std::erase(stages.reads[t], whole.value);
  stages.readers[whole.value].clear();
  stages.last_rerun[whole.made] = kNone;
}

}  // namespace

void check_cases(const Graph& graph, const Stages& stages, const Certificate::Split& split) {
  std::set<OpId> missing = absences(stages, whole_value(graph, stages, split.value));
  for (const Certificate::Case& given : split.cases) {
    if (missing.erase(given.absent) > 0) continue;
    refuse(Flaw::bad_split, "{} is not last absent at op {}, or that case is given twice",
           tensor_text(graph, split.value), given.absent);
  }
  if (missing.empty()) return;
  refuse(Flaw::bad_split, "there is no case for plans without {} at op {}",
         tensor_text(graph, split.value), *missing.begin());
}

Stages stages_of_case(const Graph& graph, const Stages& stages, TensorId value, OpId absent) {
  Whole whole = whole_value(graph, stages, value);
  Stages result = stages;
  int from = whole.made;
  if (absent != kNone) {
    from = stages.of_op[absent] + 1;
    insert_run(graph, result, from, whole.made);
    ++whole.last;
  }
  take_out(graph, result, whole, from);
  result.needs = needs_of(graph, result);
  return result;
}

}  // namespace lowtide::certify
