#include "runtime/initialize.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones.h>

namespace lowtide::runtime {

void fill(const at::Tensor& tensor, const Initializer& initializer, at::Generator generator) {
  if (!tensor.is_cpu()) {
    const at::Tensor drawn = at::empty_like(tensor, at::kCPU);
    fill(drawn, initializer, std::move(generator));
    tensor.copy_(drawn);
    return;
  }
  switch (initializer.kind) {
    case Initializer::Kind::zeros: tensor.zero_(); return;
    case Initializer::Kind::constant: tensor.fill_(initializer.a); return;
    case Initializer::Kind::uniform:
      tensor.uniform_(initializer.a, initializer.b, std::move(generator));
      return;
    case Initializer::Kind::normal:
      tensor.normal_(initializer.a, initializer.b, std::move(generator));
      return;
    case Initializer::Kind::arange:
      tensor.copy_(at::arange(tensor.numel(), tensor.options()).view(tensor.sizes()));
      return;
    case Initializer::Kind::causal:
      tensor.copy_(at::ones(tensor.sizes(), tensor.options()).tril());
      return;
  }
}

}  // namespace lowtide::runtime
