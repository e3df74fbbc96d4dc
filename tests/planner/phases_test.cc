#include <gtest/gtest.h>

#include <string>

#include "graph/io.h"
#include "plan/replay.h"
#include "planner/planner.h"

// Each phase of the default search is worth its work: with it switched off, the same counted work
// gives a worse plan or a lower bound. `build/bench/phases` shows more graphs and budgets.

namespace lowtide::planner {
namespace {

class Phases {
 public:
  Phases(const std::string& graph, double share, double seconds, int seed = 1)
      : graph_(read_graph(LOWTIDE_SOURCE_DIR "/data/graphs/" + graph + ".json")),
        budget_(
            static_cast<Bytes>(share * static_cast<double>(keep_all_reference(graph_).peak_bytes))),
        seconds_(seconds),
        seed_(seed),
        all_(within({})) {}

  /// How many percent of keep-all's cost the plan costs more without a phase.
  double more_without(const strategy::GivenOptions& options) const {
    return 100 * (within(options).overhead() - all_.overhead());
  }
  /// How many percent lower the bound is.
  double bound_less_without(const strategy::GivenOptions& options) const {
    return 100 * (*all_.least_overhead() - within(options).least_overhead().value_or(0));
  }

 private:
  Planned within(strategy::GivenOptions options) const {
    options["seed"] = seed_;
    Control control = Control::by_work(seconds_);
    return plan_within(graph_, strategy::default_strategy(), budget_, options, control);
  }

  Graph graph_;
  Bytes budget_;
  double seconds_;
  int seed_;
  Planned all_;
};

TEST(Phases, OrderReorderingAndAnnealingMakePlansCheaper) {
  // On a random graph much is luck: with other seeds only another order pays each time.
  const Phases phases("layered-100", 0.6, 1.5, 4);
  EXPECT_GT(phases.more_without({{"order", 0}}), 20);
  EXPECT_GT(phases.more_without({{"reorder", "off"}}), 5);
  EXPECT_GT(phases.more_without({{"moves", 0}}), 0.5);
}

TEST(Phases, StartsAndSpareRoomMakePlansCheaperAndTheBoundIsHigher) {
  const Phases phases("torch-densenet121", 0.65, 1.5);
  EXPECT_GT(phases.more_without({{"starts", "off"}}), 0.3);
  EXPECT_GT(phases.more_without({{"spare-room", "off"}}), 0.01);
  EXPECT_GT(phases.bound_less_without({{"bound", 0}}), 0.5);
}

TEST(Phases, TheProofRaisesTheBoundOfSmallGraphsAsFewMomentsDo) {
  const Phases phases("checkmate-unet", 0.4, 1.5);
  const double without_moments = phases.bound_less_without({{"moments", "off"}});
  const double without_both = phases.bound_less_without({{"moments", "off"}, {"prove", 0}});
  EXPECT_GT(without_both, without_moments + 0.05);
}

TEST(Phases, AFewMomentsRaiseTheBoundOfAUNet) {
  const Phases phases("torch-unet", 0.4, 3);
  EXPECT_GT(phases.bound_less_without({{"moments", "off"}}), 1);
}

TEST(Phases, RestartsMakePlansCheaper) {
  const Phases phases("layered-100", 0.8, 5, 0);
  EXPECT_GT(phases.more_without({{"restarts", "off"}}), 0.1);
}

}  // namespace
}  // namespace lowtide::planner
