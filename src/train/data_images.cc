#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/data/datasets/base.h>
#include <torch/data/datasets/mnist.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <random>
#include <system_error>

#include "base/error.h"
#include "base/file.h"
#include "train/data.h"

namespace lowtide::train {
namespace {

namespace fs = std::filesystem;
using torch::data::Example;

/// The CIFAR-10 binary files: records of one label byte and 3 x 32 x 32 pixel bytes.
class Cifar10 : public torch::data::datasets::Dataset<Cifar10> {
 public:
  static constexpr std::size_t kPixels = 3 * 32 * 32, kRecord = kPixels + 1;

  explicit Cifar10(const fs::path& folder) {
    for (const fs::path& file : cifar10_files(folder)) append(file);
  }

  Example<> get(std::size_t index) override {
    char* record = records_.data() + index * kRecord;
    return {at::from_blob(record + 1, {3, 32, 32}, at::kByte).to(at::kFloat).div_(255),
            at::scalar_tensor(static_cast<unsigned char>(*record), at::kLong)};
  }
  std::optional<std::size_t> size() const override { return records_.size() / kRecord; }

 private:
  void append(const fs::path& file) {
    const std::string records = read_file(file);
    if (records.empty() || records.size() % kRecord != 0) {
      throw InputError(fmt::format("{} is not a CIFAR-10 binary file, or it is cut short: its {} "
                                   "bytes are no whole number of {}-byte records.",
                                   file.string(), records.size(), kRecord));
    }
    for (std::size_t at = 0; at < records.size(); at += kRecord) {
      const auto label = static_cast<unsigned char>(records[at]);
      if (label > 9) {
        throw InputError(
            fmt::format("{} is not a CIFAR-10 binary file: record {} has the label {}.",
                        file.string(), at / kRecord, label));
      }
    }
    records_ += records;
  }

  std::string records_;
};

/// A new order of all examples for each epoch.
class EpochOrder {
 public:
  EpochOrder(std::size_t size, std::uint64_t seed) : order_(size), seed_(seed) {}

  std::size_t at(std::uint64_t position) {
    const std::uint64_t epoch = position / order_.size();
    if (epoch != epoch_) shuffle(epoch);
    return order_[position % order_.size()];
  }

 private:
  void shuffle(std::uint64_t epoch) {
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    std::mt19937_64 random(mixed_seed(seed_, epoch));
    for (std::size_t i = order_.size() - 1; i > 0; --i)
      std::swap(order_[i], order_[random() % (i + 1)]);
    epoch_ = epoch;
  }

  std::vector<std::size_t> order_;
  std::uint64_t seed_;
  std::uint64_t epoch_ = ~std::uint64_t{0};
};

/// Batches of a LibTorch dataset of labelled images, resized to the model's input. A grey image
/// fills all channels; a coloured one is averaged for a model of grey images.
template <typename Dataset>
class Images : public Batches {
 public:
  Images(std::string name, Dataset dataset, std::uint64_t seed)
      : name_(std::move(name)), dataset_(std::move(dataset)), order_(*dataset_.size(), seed) {}

  void fill(std::int64_t step, const at::Tensor& input, const at::Tensor& target) override {
    const std::int64_t batch = input.size(0);
    for (std::int64_t row = 0; row < batch; ++row) {
      const Example<> example =
          dataset_.get(order_.at(static_cast<std::uint64_t>(step * batch + row)));
      place(example.data, input[row]);
      target[row].copy_(example.target);
    }
  }
  std::string identity() const override {
    return fmt::format("{} of {} images", name_, *dataset_.size());
  }

 private:
  static void place(const at::Tensor& image, const at::Tensor& to) {
    const at::Tensor shown = to.size(0) == 1 ? image.mean(at::IntArrayRef{0}, true) : image;
    to.copy_(at::upsample_bilinear2d(shown.unsqueeze(0), {to.size(1), to.size(2)}, false)[0]);
  }

  std::string name_;
  Dataset dataset_;
  EpochOrder order_;
};

constexpr std::int64_t kDigits = 10;  // classes of both data sets

void require_images(const BatchShape& shape, std::string_view data) {
  if (shape.task != models::Task::images) {
    throw InputError(
        fmt::format("{} has one label per image, which this model does not learn from: "
                    "give a model that classifies images, or other data.",
                    data));
  }
  if (shape.classes < kDigits) {
    throw InputError(fmt::format("{} has 10 classes, the model only {}: give --classes 10.", data,
                                 shape.classes));
  }
}

/// LibTorch's reader does not check the length of the files.
void require_idx_file(const fs::path& file, std::uint32_t magic, std::size_t header,
                      std::size_t record) {
  constexpr std::size_t kImages = 60000;
  const std::string content = read_file(file);
  const std::array<unsigned char, 4> wanted = {0, 0, static_cast<unsigned char>(magic >> 8),
                                               static_cast<unsigned char>(magic)};
  const bool begins = content.size() >= 4 && std::memcmp(content.data(), wanted.data(), 4) == 0;
  if (begins && content.size() == header + kImages * record) return;
  throw InputError(fmt::format("{} is not the unpacked MNIST training file, or it is cut short: it "
                               "must have {} bytes and has {}.",
                               file.string(), header + kImages * record, content.size()));
}

}  // namespace

std::vector<fs::path> mnist_files(const fs::path& folder) {
  return {folder / "train-images-idx3-ubyte", folder / "train-labels-idx1-ubyte"};
}

std::vector<fs::path> cifar10_files(const fs::path& folder) {
  std::vector<fs::path> files;
  for (int part = 1; part <= 5; ++part) {
    files.push_back(folder / fmt::format("data_batch_{}.bin", part));
  }
  return files;
}

std::unique_ptr<Batches> mnist_batches(const fs::path& folder, const BatchShape& shape,
                                       std::uint64_t seed) {
  using torch::data::datasets::MNIST;
  require_images(shape, "MNIST");
  const std::vector<fs::path> files = mnist_files(folder);
  require_idx_file(files.at(0), 0x0803, 16, 28 * 28);
  require_idx_file(files.at(1), 0x0801, 8, 1);
  return std::make_unique<Images<MNIST>>("MNIST", MNIST(folder.string()), seed);
}

std::unique_ptr<Batches> cifar10_batches(const fs::path& folder, const BatchShape& shape,
                                         std::uint64_t seed) {
  require_images(shape, "CIFAR-10");
  return std::make_unique<Images<Cifar10>>("CIFAR-10", Cifar10(folder), seed);
}

}  // namespace lowtide::train
