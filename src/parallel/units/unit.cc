#include "parallel/units/unit.h"

namespace lowtide::parallel {

StateBytes& StateBytes::operator+=(const StateBytes& other) {
  parameters += other.parameters;
  gradients += other.gradients;
  optimizer += other.optimizer;
  return *this;
}

StateBytes& StateBytes::operator-=(const StateBytes& other) {
  parameters -= other.parameters;
  gradients -= other.gradients;
  optimizer -= other.optimizer;
  return *this;
}

}  // namespace lowtide::parallel
