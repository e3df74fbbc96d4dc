#pragma once

#include <cstdint>
#include <vector>

#include "remat/stage_graph.h"

namespace lowtide::bounds {

/// An op of the bound's programs: what one stage makes, by that stage's op alone or by a chain of
/// ops that ends with it.
struct BoundOp {
  int stage = 0;
  double cost = 0;              ///< of running it again, the whole chain
  int deadline = 0;             ///< the last stage in which all of it may run again
  std::vector<int> inputs = {};   ///< values that running it again takes at least
  std::vector<int> outputs = {};  ///< values whose holding is decided
};

/// How much the glued op may take for granted.
enum class Gluing : std::uint8_t {
  strict,  ///< only r's other inputs that are less than half as large as v
  loose    ///< whatever else r reads
};

/// The ops that make the decided values (one flag per value), in order, after gluing ops p to ops
/// r: p makes one decided value v, only r reads v, soon after, and r makes nothing larger than v.
/// Then holding v beyond the first run of r is dominated: whoever holds v for a run of r in a later
/// stage may run r where v was made, and hold what r makes instead, in no more bytes. So p runs
/// again whenever r does, and holding v is decided no more. What else r reads may not be there
/// where v was made; so the glued op takes only what p takes. Loose gluing makes ops that span more
/// of the graph and know less of it: which is better depends on the graph.
///
/// `glued` lists the values such as v.
struct Contraction {
  std::vector<BoundOp> ops;
  std::vector<int> glued;
};
Contraction contract(const remat::StageGraph& graph, const std::vector<bool>& decided,
                     Gluing gluing);

}  // namespace lowtide::bounds
