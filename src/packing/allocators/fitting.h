#pragma once

#include "packing/allocators/requests.h"
#include "packing/holes.h"

namespace lowtide::packing::allocators {

/// One arena that grows, with holes that are split and merged.
class Fitting final : public Allocator {
 public:
  Fitting(Fit fit, Bytes unit) : fit_(fit), unit_(unit) {}

  Block take(Bytes bytes) override {
    bytes = align_up(bytes, unit_);
    return {holes_.take(bytes, fit_), bytes};
  }
  void give(Block block) override { holes_.give(block.offset, block.bytes); }
  Bytes height() const override { return holes_.top(); }

 private:
  Holes holes_;
  Fit fit_;
  Bytes unit_;
};

}  // namespace lowtide::packing::allocators
