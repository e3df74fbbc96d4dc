#include "parallel/placement.h"

#include <fmt/format.h>

namespace lowtide::parallel {

std::string describe(const Placement& placement) {
  const Pipeline& pipeline = placement.pipeline;
  std::string text =
      fmt::format("data {} x tensor {}{} x pipeline {}", placement.data, placement.tensor,
                  placement.sequence_parallel ? " (sequence)" : "", pipeline.stages);
  if (pipeline.stages > 1) text += fmt::format(", {}", name(pipeline.schedule));
  if (pipeline.chunks > 1) text += fmt::format(" of {} chunks", pipeline.chunks);
  text += fmt::format(", {} micro-batches of {}", pipeline.micro_batches, placement.micro_batch);
  if (placement.sharding.stage > 0) {
    text += fmt::format(", ZeRO {}{}", placement.sharding.stage,
                        placement.sharding.within_node ? " within a node" : "");
  }
  return text;
}

}  // namespace lowtide::parallel
