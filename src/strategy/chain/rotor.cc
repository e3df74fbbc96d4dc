#include "strategy/chain/persistent.h"

namespace lowtide::strategy {
namespace {

Decision decide_by_rotor(const PlanRequest& request) {
  return decide_at_articulation_points(request, [&](const CutGraph& cut, Trials& trials) {
    const chain::BlockChain chain(cut, static_cast<int>(request.options.at("blocks")));
    std::vector<std::vector<chain::Tape>> tapes;
    for (int j = 0; j < chain.num_blocks(); ++j) {
      tapes.push_back({chain.tape(j, chain.read_back(j))});
    }
    const int slots = static_cast<int>(request.options.at("slots"));
    if (!chain::offer_persistent(request, chain, tapes, slots, trials)) return trials.stopped();
    return trials.decision("rotor");
  });
}

}  // namespace

Strategy rotor_strategy() {
  return {.name = "rotor",
          .summary = "the best persistent schedule of a chain of blocks, by dynamic programming",
          .guarantee = "on a chain of blocks, no schedule that keeps what it stores until its "
                       "block's backward part costs less, up to the rounding of memory to slots",
          .paper = "Beaumont, Eyraud-Dubois, Herrmann, Joly, Shilova: Optimal checkpointing for "
                   "heterogeneous chains, 2019",
          .options = chain::with_chain_options({}, 2),
          .decide = decide_by_rotor};
}

}  // namespace lowtide::strategy
