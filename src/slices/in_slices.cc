#include "slices/in_slices.h"

#include <fmt/format.h>

#include "base/error.h"
#include "slices/batch_norm.h"
#include "slices/marks.h"
#include "slices/writer.h"

namespace lowtide::slices {

Graph in_slices(const Graph& graph, std::int64_t slices) {
  if (slices == 1) return graph;
  const Marks marks(graph);
  const std::string name = fmt::format("{}-s{}", graph.name(), slices);
  if (!marks.any_mixed()) return written(graph, marks, slices, name);
  const Graph by_sums = batch_norms_by_sums(graph, marks);
  return written(by_sums, Marks(by_sums), slices, name);
}

void check_slices(std::int64_t slices, std::int64_t batch, std::int64_t micro_batches) {
  const std::int64_t rows = batch / micro_batches;
  if (slices >= 1 && slices <= rows) return;
  throw InputError(fmt::format("--slices {}: a {} of {} has 1 to {} slices; choose fewer{}", slices,
                               micro_batches > 1 ? "micro-batch" : "batch", rows, rows,
                               micro_batches > 1 ? ", or fewer --micro-batches" : ""));
}

}  // namespace lowtide::slices
