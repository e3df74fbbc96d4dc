#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "models/model.h"
#include "train/options.h"

namespace lowtide::train {

/// The requirements of a model's step on its data.
struct BatchShape {
  models::Task task;
  std::int64_t classes;  ///< targets are in [0, classes); for tokens the vocabulary
};

/// A source of batches. A batch depends only on the seed and the step, so a resumed run gets
/// exactly the batches of an uninterrupted one.
class Batches {
 public:
  virtual ~Batches() = default;
  /// Writes the batch of `step` into the residents of the training step, in place. Images are N x C
  /// x H x W, tokens N x T; targets i64. Throws Error when the data can no longer be read.
  virtual void fill(std::int64_t step, const at::Tensor& input, const at::Tensor& target) = 0;
  /// Identifies the data ("text of 1115394 bytes"): a resumption with other data is refused.
  virtual std::string identity() const = 0;
};

/// Opens the data and checks that it fits the model: its task, its classes, and whether it has
/// enough for one batch (as large as `input`). Throws InputError otherwise.
std::unique_ptr<Batches> open_batches(const DataSource& source, const BatchShape& shape,
                                      const at::Tensor& input, std::uint64_t seed);

/// The files that batches of `source` are read from.
std::vector<std::filesystem::path> files_of(const DataSource& source);

/// The unit that a step counts: "tokens", or "images" for everything else.
std::string_view item_name(models::Task task);
std::int64_t items_per_step(models::Task task, const at::Tensor& input);

// One per kind of source; see open_batches.
std::unique_ptr<Batches> synthetic_batches(const BatchShape& shape, std::uint64_t seed);
std::unique_ptr<Batches> text_batches(const std::filesystem::path& file, const BatchShape& shape,
                                      const at::Tensor& input, std::uint64_t seed);
std::unique_ptr<Batches> mnist_batches(const std::filesystem::path& folder, const BatchShape& shape,
                                       std::uint64_t seed);
std::unique_ptr<Batches> cifar10_batches(const std::filesystem::path& folder,
                                         const BatchShape& shape, std::uint64_t seed);

std::vector<std::filesystem::path> mnist_files(const std::filesystem::path& folder);
std::vector<std::filesystem::path> cifar10_files(const std::filesystem::path& folder);

/// A different seed for each (seed, step), by SplitMix64 (Steele et al., OOPSLA 2014).
std::uint64_t mixed_seed(std::uint64_t seed, std::uint64_t step);

}  // namespace lowtide::train
