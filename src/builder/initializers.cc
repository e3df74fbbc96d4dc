#include <cmath>

#include "base/error.h"
#include "builder/builder.h"

namespace lowtide::init {
namespace {

void require_matrix(const Shape& shape) {
  if (shape.size() < 2) throw InputError("a fan needs a weight of at least 2 dimensions");
}

/// Number of weight elements that connect to one channel of the other side.
double fan(const Shape& shape, std::size_t channel_dim) {
  require_matrix(shape);
  double product = static_cast<double>(shape[channel_dim]);
  for (std::size_t i = 2; i < shape.size(); ++i) product *= static_cast<double>(shape[i]);
  return product;
}

}  // namespace

Initializer zeros() { return {Initializer::Kind::zeros}; }
Initializer ones() { return constant(1); }
Initializer constant(double value) { return {Initializer::Kind::constant, value}; }

Initializer uniform(double low, double high) { return {Initializer::Kind::uniform, low, high}; }

Initializer normal(double mean, double deviation) {
  return {Initializer::Kind::normal, mean, deviation};
}

Initializer kaiming_normal(const Shape& weight_shape) {
  return normal(0, std::sqrt(2 / fan(weight_shape, 0)));
}

Initializer fan_in_uniform(const Shape& weight_shape) {
  const double bound = 1 / std::sqrt(fan(weight_shape, 1));
  return uniform(-bound, bound);
}

}  // namespace lowtide::init
