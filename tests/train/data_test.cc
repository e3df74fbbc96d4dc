#include "train/data.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "train/temp_folder.h"

namespace lowtide::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

struct Batch {
  at::Tensor input, target;
};

Batch tokens(std::int64_t rows, std::int64_t length) {
  return {at::zeros({rows, length}, at::kLong), at::zeros({rows, length}, at::kLong)};
}
Batch images(std::int64_t rows, std::int64_t channels, std::int64_t size) {
  return {at::zeros({rows, channels, size, size}), at::zeros({rows}, at::kLong)};
}

Batch filled(Batches& batches, Batch batch, std::int64_t step) {
  batches.fill(step, batch.input, batch.target);
  return batch;
}

const BatchShape kTokens{models::Task::tokens, 256};
const BatchShape kImages{models::Task::images, 10};

TEST(DataSource, ReadsEachForm) {
  EXPECT_EQ(parse_data_source("synthetic").kind, DataSource::Kind::synthetic);
  EXPECT_EQ(parse_data_source("text:/a/b:c").path, "/a/b:c");
  EXPECT_EQ(parse_data_source("mnist:x").path, std::filesystem::absolute("x"));
  EXPECT_EQ(parse_data_source("cifar10:x").kind, DataSource::Kind::cifar10);
}

TEST(DataSource, RefusesOthersWithTheNearest) {
  const auto parse = [](const char* text) { return [text] { parse_data_source(text); }; };
  EXPECT_THAT(parse("mnits:x"), ThrowsMessage<InputError>(HasSubstr("Did you mean \"mnist\"")));
  EXPECT_THAT(parse("text"), ThrowsMessage<InputError>(HasSubstr("--data text:PATH")));
  EXPECT_THAT(parse("text:"), ThrowsMessage<InputError>(HasSubstr("needs a path")));
  EXPECT_THAT(parse("synthetic:x"), ThrowsMessage<InputError>(HasSubstr("no path")));
}

TEST(Synthetic, DependsOnSeedAndStepAlone) {
  const auto a = synthetic_batches({models::Task::images, 5}, 1),
             b = synthetic_batches({models::Task::images, 5}, 1);
  const auto other_seed = synthetic_batches({models::Task::images, 5}, 2);
  filled(*a, images(4, 3, 8), 0);  // earlier draws do not matter
  const Batch third = filled(*a, images(4, 3, 8), 3);
  EXPECT_TRUE(third.input.equal(filled(*b, images(4, 3, 8), 3).input));
  EXPECT_TRUE(third.target.equal(filled(*b, images(4, 3, 8), 3).target));
  EXPECT_FALSE(third.input.equal(filled(*b, images(4, 3, 8), 4).input));
  EXPECT_FALSE(third.input.equal(filled(*other_seed, images(4, 3, 8), 3).input));
}

TEST(Synthetic, LeavesTheGlobalGeneratorAloneAndStaysInRange) {
  at::manual_seed(7);
  const at::Tensor expected = at::rand({3});
  at::manual_seed(7);
  const Batch batch = filled(*synthetic_batches({models::Task::tokens, 5}, 1), tokens(20, 20), 0);
  EXPECT_TRUE(at::rand({3}).equal(expected));
  EXPECT_EQ(batch.input.min().item<int>(), 0);
  EXPECT_EQ(batch.input.max().item<int>(), 4);
}

TEST(Text, TargetsAreTheNextBytes) {
  const TempFolder folder;
  std::string text;
  for (int i = 0; i < 200; ++i) text += static_cast<char>(i);
  put(folder / "t", text);
  Batch batch = tokens(4, 9);
  const auto batches = text_batches(folder / "t", kTokens, batch.input, 3);
  for (int step = 0; step < 20; ++step) {
    batch = filled(*batches, batch, step);
    EXPECT_TRUE(batch.target.equal(batch.input + 1));
    EXPECT_TRUE(batch.input.select(1, 8).equal(batch.input.select(1, 0) + 8));
  }
}

TEST(Text, EveryWindowCanBeDrawn) {
  const TempFolder folder;
  put(folder / "t", "abcde");
  Batch batch = tokens(1, 3);  // windows abc|d and bcd|e
  const auto batches = text_batches(folder / "t", kTokens, batch.input, 0);
  std::set<std::int64_t> starts;
  for (int step = 0; step < 50; ++step) {
    starts.insert(filled(*batches, batch, step).input[0][0].item<std::int64_t>());
  }
  EXPECT_THAT(starts, ::testing::ElementsAre('a', 'b'));
}

TEST(Text, RefusesWhatIsShorterThanABatch) {
  const TempFolder folder;
  const Batch batch = tokens(4, 8);
  put(folder / "short", std::string(32, 'a'));
  put(folder / "enough", std::string(33, 'a'));
  EXPECT_THAT(
      [&] { text_batches(folder / "short", kTokens, batch.input, 0); },
      ThrowsMessage<InputError>(AllOf(HasSubstr("shorter than one batch"), HasSubstr("33"))));
  EXPECT_NO_THROW(text_batches(folder / "enough", kTokens, batch.input, 0));
}

TEST(Text, RefusesMissingFilesFoldersAndUnknownBytes) {
  const TempFolder folder;
  Batch batch = tokens(1, 2);
  EXPECT_THAT([&] { text_batches(folder / "none", kTokens, batch.input, 0); },
              ThrowsMessage<InputError>(HasSubstr("no such file")));
  EXPECT_THAT([&] { text_batches(folder.path(), kTokens, batch.input, 0); },
              ThrowsMessage<InputError>(HasSubstr("not a file")));
  EXPECT_THAT([&] { text_batches(folder / "none", kImages, batch.input, 0); },
              ThrowsMessage<InputError>(HasSubstr("learns from images")));
  put(folder / "t", "aaaa\xff");
  const auto batches =
      text_batches(folder / "t", {models::Task::tokens, 128}, tokens(1, 4).input, 0);
  EXPECT_THAT([&] { filled(*batches, tokens(1, 4), 0); },
              ThrowsMessage<InputError>(HasSubstr("--vocabulary 256")));
}

TEST(Text, NoticesAFileThatShrinks) {
  const TempFolder folder;
  put(folder / "t", std::string(100, 'a'));
  const Batch batch = tokens(1, 90);
  const auto batches = text_batches(folder / "t", kTokens, batch.input, 0);
  std::filesystem::resize_file(folder / "t", 10);
  EXPECT_THAT([&] { filled(*batches, batch, 0); }, ThrowsMessage<Error>(HasSubstr("any more")));
}

/// Five files of one record each; record k has the label k and all pixels 51 * k.
void put_cifar(const TempFolder& folder) {
  for (int k = 1; k <= 5; ++k) {
    put(folder / ("data_batch_" + std::to_string(k) + ".bin"),
        std::string(1, static_cast<char>(k)) + std::string(3072, static_cast<char>(51 * k)));
  }
}

TEST(Cifar10, ShowsEachImageOncePerEpochInANewOrder) {
  const TempFolder folder;
  put_cifar(folder);
  const auto batches = cifar10_batches(folder.path(), kImages, 0);
  std::set<std::vector<std::int64_t>> orders;
  for (int epoch = 0; epoch < 8; ++epoch) {
    const Batch batch = filled(*batches, images(5, 3, 32), epoch);
    const at::Tensor labels = std::get<0>(batch.target.sort());
    EXPECT_TRUE(labels.equal(at::arange(1, 6, at::kLong)));
    EXPECT_TRUE(at::allclose(batch.input.mean({1, 2, 3}), batch.target.to(at::kFloat) / 5));
    const auto* begin = batch.target.const_data_ptr<std::int64_t>();
    orders.emplace(begin, begin + 5);
  }
  EXPECT_GT(orders.size(), 1u);
}

TEST(Cifar10, ResizesAndAveragesChannels) {
  const TempFolder folder;
  put_cifar(folder);
  const auto batches = cifar10_batches(folder.path(), kImages, 0);
  const Batch batch = filled(*batches, images(5, 1, 28), 0);
  EXPECT_TRUE(at::allclose(batch.input.mean({1, 2, 3}), batch.target.to(at::kFloat) / 5));
}

TEST(Cifar10, RefusesFilesThatAreCutShortOrOfAnotherKind) {
  const TempFolder folder;
  put_cifar(folder);
  const auto open = [&] { cifar10_batches(folder.path(), kImages, 0); };
  std::filesystem::resize_file(folder / "data_batch_3.bin", 3072);
  EXPECT_THAT(open, ThrowsMessage<InputError>(
                        AllOf(HasSubstr("data_batch_3.bin"), HasSubstr("cut short"))));
  put(folder / "data_batch_3.bin", std::string(3073, 'a'));
  EXPECT_THAT(open, ThrowsMessage<InputError>(HasSubstr("label 97")));
  std::filesystem::remove(folder / "data_batch_3.bin");
  EXPECT_THAT(open, ThrowsMessage<InputError>(HasSubstr("data_batch_3.bin")));
}

TEST(Cifar10, RefusesModelsThatDoNotFit) {
  const TempFolder folder;
  EXPECT_THAT([&] { cifar10_batches(folder.path(), {models::Task::images, 9}, 0); },
              ThrowsMessage<InputError>(HasSubstr("--classes 10")));
  EXPECT_THAT([&] { cifar10_batches(folder.path(), kTokens, 0); },
              ThrowsMessage<InputError>(HasSubstr("CIFAR-10")));
}

/// The training set's files: image i has the label i % 10 and all pixels i % 256.
void put_mnist(const TempFolder& folder) {
  const auto big_endian = [](std::uint32_t n) {
    return std::string{static_cast<char>(n >> 24), static_cast<char>(n >> 16),
                       static_cast<char>(n >> 8), static_cast<char>(n)};
  };
  std::string pixels = big_endian(0x0803) + big_endian(60000) + big_endian(28) + big_endian(28);
  std::string labels = big_endian(0x0801) + big_endian(60000);
  for (int i = 0; i < 60000; ++i) {
    pixels += std::string(28 * 28, static_cast<char>(i % 10 * 20));
    labels += static_cast<char>(i % 10);
  }
  put(folder / "train-images-idx3-ubyte", pixels);
  put(folder / "train-labels-idx1-ubyte", labels);
}

TEST(Mnist, FillsImagesAndLabelsAndRefusesShortFiles) {
  const TempFolder folder;
  const auto open = [&] { mnist_batches(folder.path(), kImages, 0); };
  EXPECT_THAT(open, ThrowsMessage<InputError>(HasSubstr("train-images-idx3-ubyte")));
  put_mnist(folder);
  const auto batches = mnist_batches(folder.path(), kImages, 0);
  const Batch batch = filled(*batches, images(16, 3, 32), 5);
  EXPECT_TRUE(
      at::allclose(batch.input.mean({1, 2, 3}) * 255, batch.target.to(at::kFloat) * 20, 1e-4));
  std::filesystem::resize_file(folder / "train-images-idx3-ubyte", 1000);
  EXPECT_THAT(open, ThrowsMessage<InputError>(HasSubstr("cut short")));
}

}  // namespace
}  // namespace lowtide::train
