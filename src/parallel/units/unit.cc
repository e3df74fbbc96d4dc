#include "parallel/units/unit.h"

namespace lowtide::parallel {

StateBytes& StateBytes::operator+=(const StateBytes& other) {
  parameters += other.parameters;
  gradients += other.gradients;
  optimizer += other.optimizer;
  others += other.others;
  return *this;
}

StateBytes& StateBytes::operator-=(const StateBytes& other) {
  parameters -= other.parameters;
  gradients -= other.gradients;
  optimizer -= other.optimizer;
  others -= other.others;
  return *this;
}

}  // namespace lowtide::parallel
