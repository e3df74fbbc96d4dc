#pragma once

#include <cstdint>
#include <vector>

#include "remat/stage_graph.h"

namespace lowtide::bounds {

/// An op of the bound's programs: makes the outputs of one stage, by that stage's op alone or by a
/// chain of ops that ends with it.
struct BoundOp {
  int stage = 0;
  double cost = 0;                ///< of running the whole chain again
  int deadline = 0;               ///< the last stage in which the whole chain may run again
  std::vector<int> inputs = {};   ///< values that a rerun needs at least
  std::vector<int> outputs = {};  ///< values that the program holds or drops
};

/// The inputs that the glued op assumes to exist for free.
enum class Gluing : std::uint8_t {
  strict,  ///< only other inputs of r that are less than half as large as v
  loose    ///< all other inputs of r
};

/// The ops that make the decided values (one flag per value), in order, after gluing ops p to ops
/// r: p makes one decided value v, only r reads v, soon after, and r makes nothing larger than v.
/// Then holding v beyond the first run of r is dominated: a plan that holds v for a later run of r
/// may run r where v was made, and hold the outputs of r, in no more bytes. So p runs again
/// whenever r does, and v needs no decision. Other inputs of r may be missing where v was made, so
/// the glued op reads only the inputs of p. Loose gluing makes ops that span more of the graph and
/// know less of it; which kind is better depends on the graph.
///
/// `glued` lists the values such as v.
struct Contraction {
  std::vector<BoundOp> ops;
  std::vector<int> glued;
};
Contraction contract(const remat::StageGraph& graph, const std::vector<bool>& decided,
                     Gluing gluing);

}  // namespace lowtide::bounds
