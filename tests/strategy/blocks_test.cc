// Tapes of blocks, and the benefit of a choice between them.

#include <gtest/gtest.h>

#include <algorithm>

#include "graph/io.h"
#include "plan/lower.h"
#include "strategy/chain/block_chain.h"
#include "support/ask.h"
#include "support/random_graph.h"

namespace lowtide::strategy {
namespace {

using testing::ask;
using testing::op;
using testing::resident;
using testing::value;

/// Two blocks of an expensive and a cheap op each, a -> b -> c -> d; each backward op reads the
/// gradient and both values of its block. Values inside a block have 10 bytes, states 2.
///   0 a, 1 b, 2 c, 3 d forward; 4 loss; 5 back_cd reads c d; 6 back_ab reads a b
Graph two_blocks() {
  GraphData data;
  data.tensors = {resident("x", 1), value("a", 10), value("b", 2),     value("c", 10),
                  value("d", 2),    value("g", 3),  value("back_cd", 3), value("back_ab", 3)};
  data.ops = {op("a", {0}, {1}, 50), op("b", {1}, {2}, 1, 4), op("c", {2}, {3}, 50),
              op("d", {3}, {4}, 1),  op("loss", {4}, {5}, 1), op("back_cd", {3, 4, 5}, {6}, 1),
              op("back_ab", {1, 2, 6}, {7}, 1)};
  for (OpId id : {4, 5, 6}) data.ops[id].phase = Phase::backward;
  data.outputs = {7};
  return Graph(std::move(data));
}

TEST(BlockChain, MeasuresTapes) {
  // Points are before b, c and d; of two blocks the second begins before c.
  const CutGraph cut = cut_graph(two_blocks());
  ASSERT_EQ(cut.forward_end, 4);
  const chain::BlockChain chain(cut, 2);
  ASSERT_EQ(chain.num_blocks(), 2);
  EXPECT_EQ(chain.fixed_bytes(), 1);
  EXPECT_EQ(chain.stages(0), (std::vector<int>{0, 1, 6}));
  EXPECT_EQ(chain.stages(1), (std::vector<int>{2, 3, 4, 5}));
  EXPECT_EQ(chain.state(1), (std::vector<int>{1}));  // b
  EXPECT_EQ(chain.state_bytes(1, 0), 2);
  EXPECT_EQ(chain.gradient_bytes(0), 3);
  EXPECT_EQ(chain.start(0, true).peak, 10 + 2 + 4);
  EXPECT_EQ(chain.read_back(0), (std::vector<int>{0, 1}));

  const chain::Tape all = chain.tape(0, chain.read_back(0));
  EXPECT_EQ(all.held, 12);
  EXPECT_EQ(all.make.cost, 51);
  EXPECT_EQ(all.make_beside_next.cost, 50);  // b is held
  EXPECT_EQ(all.make_beside_next.peak, 10);
  EXPECT_EQ(all.backward.cost, 0);
  EXPECT_EQ(all.backward.peak, 12 + 3 + 3);  // a, b, both gradients

  const chain::Tape small = chain.tape(0, {0});  // b is made again right before it is needed
  EXPECT_EQ(small.held, 12);                     // b is in the next block's state
  EXPECT_EQ(small.backward.cost, 1);
  EXPECT_EQ(small.backward.stages, (std::vector<int>{1, 6}));
  EXPECT_EQ(small.backward.peak, 12 + 3 + 4);  // b's workspace is larger than the new gradient
}

TEST(Blocks, NeverCostMoreThanRotor) {
  // The tape of rotor is among the choices.
  for (const char* name : {"checkmate-resnet50", "torch-resnet50", "torch-gpt"}) {
    SCOPED_TRACE(name);
    const Graph graph =
        read_graph(std::string(LOWTIDE_SOURCE_DIR "/data/graphs/") + name + ".json");
    for (double share : {0.8, 0.6, 0.4}) {
      const Bytes budget = testing::share_of_peak(graph, share);
      const Decision rotor = ask("rotor", graph, budget);
      const Decision blocks = ask("blocks", graph, budget);
      ASSERT_FALSE(blocks.executions.empty()) << blocks.message;
      if (rotor.executions.empty()) continue;
      EXPECT_LE(lower(graph, blocks.executions).cost, lower(graph, rotor.executions).cost);
    }
  }
}

}  // namespace
}  // namespace lowtide::strategy
