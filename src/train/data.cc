#include "train/data.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <stdexcept>

namespace lowtide::train {
namespace {

class Synthetic : public Batches {
 public:
  Synthetic(std::int64_t classes, std::uint64_t seed) : classes_(classes), seed_(seed) {}

  void fill(std::int64_t step, const at::Tensor& input, const at::Tensor& target) override {
    at::Generator generator =
        at::detail::createCPUGenerator(mixed_seed(seed_, static_cast<std::uint64_t>(step)));
    draw(input, generator);
    draw(target, generator);
  }
  std::string identity() const override { return "synthetic data"; }

 private:
  void draw(const at::Tensor& tensor, at::Generator& generator) const {
    if (tensor.is_floating_point()) {
      tensor.normal_(0, 1, generator);
    } else {
      tensor.random_(0, classes_, generator);
    }
  }

  std::int64_t classes_;
  std::uint64_t seed_;
};

}  // namespace

std::unique_ptr<Batches> synthetic_batches(const BatchShape& shape, std::uint64_t seed) {
  return std::make_unique<Synthetic>(shape.classes, seed);
}

std::unique_ptr<Batches> open_batches(const DataSource& source, const BatchShape& shape,
                                      const at::Tensor& input, std::uint64_t seed) {
  switch (source.kind) {
    case DataSource::Kind::synthetic: return synthetic_batches(shape, seed);
    case DataSource::Kind::text: return text_batches(source.path, shape, input, seed);
    case DataSource::Kind::mnist: return mnist_batches(source.path, shape, seed);
    case DataSource::Kind::cifar10: return cifar10_batches(source.path, shape, seed);
  }
  throw std::logic_error("a kind of data without batches");
}

std::vector<std::filesystem::path> files_of(const DataSource& source) {
  switch (source.kind) {
    case DataSource::Kind::synthetic: return {};
    case DataSource::Kind::text: return {source.path};
    case DataSource::Kind::mnist: return mnist_files(source.path);
    case DataSource::Kind::cifar10: return cifar10_files(source.path);
  }
  throw std::logic_error("a kind of data without files");
}

std::string_view item_name(models::Task task) {
  return task == models::Task::tokens ? "tokens" : "images";
}

std::int64_t items_per_step(models::Task task, const at::Tensor& input) {
  return task == models::Task::tokens ? input.numel() : input.size(0);
}

std::uint64_t mixed_seed(std::uint64_t seed, std::uint64_t step) {
  std::uint64_t z = seed + 0x9E3779B97F4A7C15u * (step + 1);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

}  // namespace lowtide::train
