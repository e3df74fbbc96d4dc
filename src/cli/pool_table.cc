#include "cli/pool_table.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "cli/output.h"
#include "packing/allocators/requests.h"
#include "report/table.h"

namespace lowtide::cli {
namespace {

/// Memory held throughout, then the buffers, in the order of the requests to a pool.
std::vector<packing::Buffer> asked_for(const std::vector<packing::Buffer>& buffers,
                                       const std::vector<Bytes>& held) {
  std::int32_t begin = 0, end = 0;
  for (const packing::Buffer& buffer : buffers) {
    begin = std::min(begin, buffer.begin);
    end = std::max(end, buffer.end);
  }
  std::vector<packing::Buffer> all;
  for (Bytes bytes : held) all.push_back({begin, end, bytes});
  all.insert(all.end(), buffers.begin(), buffers.end());
  return all;
}

}  // namespace

PoolComparison compare_pools(const std::vector<packing::Buffer>& buffers,
                             const packing::SolvedPacking& solved, const std::vector<Bytes>& held,
                             Bytes alignment) {
  const std::vector<packing::Buffer> all = asked_for(buffers, held);
  const Bytes held_bytes = std::accumulate(held.begin(), held.end(), Bytes{0});
  PoolComparison comparison{packing::allocators::most_alive(all),
                            held_bytes + solved.lower_bound,
                            held_bytes + solved.packing.height,
                            {}};
  for (const packing::allocators::PoolStrategy& pool : packing::allocators::pool_strategies()) {
    const packing::allocators::Pooled pooled = pool.serve(all, alignment);
    comparison.rows.push_back(
        {&pool, pooled.height, packing::allocators::most_alive(all, pooled.blocks)});
  }
  return comparison;
}

std::string text(const PoolComparison& comparison) {
  report::Table table({"memory", "height", "over what is alive", "most in blocks"});
  const auto add = [&](std::string_view name, Bytes height, std::string blocks) {
    table.add({std::string(name), format_bytes(height),
               percent(packing::allocators::fragmentation(height, comparison.live_bytes)),
               std::move(blocks)});
  };
  table.add({"most bytes alive", format_bytes(comparison.live_bytes)});
  add("lower bound of layouts", comparison.lower_bound, "");
  add("this layout", comparison.height, "");
  for (const auto& row : comparison.rows) {
    add(row.pool->name, row.height, format_bytes(row.block_bytes));
  }
  return table.text(output_columns());
}

nlohmann::json to_json(const PoolComparison& comparison) {
  nlohmann::json pools = nlohmann::json::array();
  for (const auto& row : comparison.rows) {
    pools.push_back(
        {{"name", row.pool->name},
         {"summary", row.pool->summary},
         {"source", row.pool->source},
         {"height", row.height},
         {"block_bytes", row.block_bytes},
         {"fragmentation", packing::allocators::fragmentation(row.height, comparison.live_bytes)}});
  }
  return {{"live_bytes", comparison.live_bytes},
          {"lower_bound", comparison.lower_bound},
          {"height", comparison.height},
          {"fragmentation",
           packing::allocators::fragmentation(comparison.height, comparison.live_bytes)},
          {"pools", pools}};
}

}  // namespace lowtide::cli
