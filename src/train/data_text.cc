#include <ATen/ATen.h>
#include <fmt/format.h>

#include <fstream>
#include <random>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "train/data.h"

namespace lowtide::train {
namespace {

namespace fs = std::filesystem;

std::int64_t size_of(const fs::path& file) {
  std::error_code error;
  const fs::file_status status = fs::status(file, error);
  if (!fs::exists(status)) throw InputError(fmt::format("no such file: {}.", file.string()));
  if (!fs::is_regular_file(status)) {
    throw InputError(fmt::format("{} is not a file that text can be read from.", file.string()));
  }
  return static_cast<std::int64_t>(fs::file_size(file));
}

/// Windows of a file's bytes at random positions; the target is the input shifted by one byte. Only
/// the windows of one batch are in memory, so files may be larger than memory.
class Text : public Batches {
 public:
  Text(const fs::path& file, std::int64_t size, std::int64_t vocabulary, std::uint64_t seed)
      : file_(file),
        size_(size),
        vocabulary_(vocabulary),
        seed_(seed),
        stream_(file, std::ios::binary) {
    if (!stream_) throw InputError(fmt::format("cannot read {}.", file_.string()));
  }

  void fill(std::int64_t step, const at::Tensor& input, const at::Tensor& target) override {
    const std::int64_t sequence = input.size(1);
    std::mt19937_64 random(mixed_seed(seed_, static_cast<std::uint64_t>(step)));
    auto* in = input.mutable_data_ptr<std::int64_t>();
    auto* out = target.mutable_data_ptr<std::int64_t>();
    for (std::int64_t row = 0; row < input.size(0); ++row) {
      const auto places = static_cast<std::uint64_t>(size_ - sequence);
      read_window(static_cast<std::int64_t>(random() % places), sequence + 1);
      for (std::int64_t i = 0; i < sequence; ++i) {
        *in++ = token(i);
        *out++ = token(i + 1);
      }
    }
  }
  std::string identity() const override { return fmt::format("text of {} bytes", size_); }

 private:
  void read_window(std::int64_t begin, std::int64_t length) {
    window_.resize(static_cast<std::size_t>(length));
    stream_.clear();
    stream_.seekg(begin);
    if (!stream_.read(window_.data(), length)) {
      throw Error(fmt::format("cannot read {} any more: it has changed or its disk has failed.",
                              file_.string()));
    }
  }

  std::int64_t token(std::int64_t i) const {
    const auto byte = static_cast<unsigned char>(window_[static_cast<std::size_t>(i)]);
    if (byte >= vocabulary_) {
      throw InputError(fmt::format("{} has the byte {}, but the model knows only {} tokens: give "
                                   "--vocabulary 256.",
                                   file_.string(), byte, vocabulary_));
    }
    return byte;
  }

  fs::path file_;
  std::int64_t size_;
  std::int64_t vocabulary_;
  std::uint64_t seed_;
  std::ifstream stream_;
  std::string window_;
};

}  // namespace

std::unique_ptr<Batches> text_batches(const fs::path& file, const BatchShape& shape,
                                      const at::Tensor& input, std::uint64_t seed) {
  if (shape.task != models::Task::tokens) {
    throw InputError("this model learns from images, not text: give --data mnist:FOLDER, "
                     "cifar10:FOLDER or synthetic.");
  }
  const std::int64_t size = size_of(file), needed = input.numel() + 1;
  if (size < needed) {
    throw InputError(
        fmt::format("{} is shorter than one batch: it has {} bytes, and {} x {} tokens "
                    "need {}. Give a longer file, or a smaller --batch or --sequence.",
                    file.string(), size, input.size(0), input.size(1), needed));
  }
  return std::make_unique<Text>(file, size, shape.classes, seed);
}

}  // namespace lowtide::train
