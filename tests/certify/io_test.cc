#include "certify/io.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace lowtide::testing {
namespace {

using ::testing::HasSubstr;

certify::Certificate sample() {
  return {.graph = "net \"1\"", .num_ops = 5, .num_tensors = 9, .digest = 0x00ab00000000cdef,
          .budget_bytes = 12'345'678'901, .lower_bound = 0.1 + 0.2,
          .proof = {.prices = {{1, 1e-7 / 3}, {5, 2}},
                    .clusters = {{{{0, 1}, {3}}, {{2}, {4, 5}}}, {{{3}, {6}}}}}};
}

TEST(CertificateIo, RoundTripsToTheLastBit) {
  const certify::Certificate before = sample();
  const std::string text = certify::format_certificate(before);
  const certify::Certificate after = certify::parse_certificate(text);
  EXPECT_EQ(after.graph, before.graph);
  EXPECT_EQ(after.num_ops, before.num_ops);
  EXPECT_EQ(after.num_tensors, before.num_tensors);
  EXPECT_EQ(after.digest, before.digest);
  EXPECT_EQ(after.budget_bytes, before.budget_bytes);
  EXPECT_EQ(after.lower_bound, before.lower_bound);
  ASSERT_EQ(after.proof.prices.size(), 2u);
  EXPECT_EQ(after.proof.prices[0].price, before.proof.prices[0].price);
  EXPECT_EQ(after.proof.prices[1].op, 5);
  ASSERT_EQ(after.proof.clusters.size(), 2u);
  EXPECT_EQ(after.proof.clusters[0][0].ops, (std::vector<OpId>{0, 1}));
  EXPECT_EQ(after.proof.clusters[0][1].values, (std::vector<TensorId>{4, 5}));
  EXPECT_EQ(certify::format_certificate(after), text);
}

TEST(CertificateIo, RoundTripsAChain) {
  for (const std::vector<OpId>& chain : {std::vector<OpId>{}, {1, 2, 4}}) {
    certify::Certificate before = sample();
    before.chain = chain;
    const std::string text = certify::format_certificate(before);
    EXPECT_THAT(text, HasSubstr("\"model\":\"any-order\""));
    EXPECT_EQ(certify::parse_certificate(text).chain, chain);
    EXPECT_EQ(certify::format_certificate(certify::parse_certificate(text)), text);
  }
  EXPECT_FALSE(certify::parse_certificate(certify::format_certificate(sample())).chain);
}

TEST(CertificateIo, RoundTripsMovesAndHasTheLeastVersionThatCanCheckThem) {
  certify::Certificate before = sample();
  EXPECT_THAT(certify::format_certificate(before), HasSubstr("\"version\":1"));
  for (const bool residents : {false, true}) {
    before.moves = {.lanes = {.out = {0.1, 1e-9}, .in = {2, 0.25}, .shared = true},
                    .weight = 1.0 / 3,
                    .residents = residents};
    const std::string text = certify::format_certificate(before);
    EXPECT_THAT(text, HasSubstr(residents ? "\"version\":3" : "\"version\":2"));
    const certify::Certificate after = certify::parse_certificate(text);
    EXPECT_EQ(after.moves->lanes, before.moves->lanes);
    EXPECT_EQ(after.moves->weight, before.moves->weight);
    EXPECT_EQ(after.moves->residents, residents);
  }
}

TEST(CertificateIo, RoundTripsASplit) {
  certify::Certificate before = sample();
  before.split = certify::Certificate::Split{4, {{kNone, before.proof}, {3, {{{6, 0.1}}, {}}}}};
  const std::string text = certify::format_certificate(before);
  const certify::Certificate after = certify::parse_certificate(text);
  ASSERT_TRUE(after.split);
  EXPECT_EQ(after.split->value, 4);
  ASSERT_EQ(after.split->cases.size(), 2u);
  EXPECT_EQ(after.split->cases[0].absent, kNone);
  EXPECT_EQ(after.split->cases[0].proof.clusters[0][1].values, (std::vector<TensorId>{4, 5}));
  EXPECT_EQ(after.split->cases[1].absent, 3);
  EXPECT_EQ(after.split->cases[1].proof.prices[0].price, 0.1);
  EXPECT_EQ(certify::format_certificate(after), text);
  EXPECT_FALSE(certify::parse_certificate(certify::format_certificate(sample())).split);
}

std::string error_of(std::string_view text) {
  try {
    certify::parse_certificate(text, "c.json");
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

/// A good certificate with one key changed or removed.
std::string error_with(const std::string& key, const std::string& json) {
  nlohmann::json certificate = nlohmann::json::parse(certify::format_certificate(sample()));
  if (json.empty()) {
    certificate.erase(key);
  } else {
    certificate[key] = nlohmann::json::parse(json);
  }
  return error_of(certificate.dump());
}

TEST(CertificateIoErrors, NameWhatIsWrong) {
  EXPECT_EQ(error_with("lower_bound", "7"), "no error");
  EXPECT_THAT(error_with("format", "\"lowtide-plan\""),
              HasSubstr("must be \"lowtide-certificate\""));
  EXPECT_THAT(error_with("version", "4"), HasSubstr("this program reads versions 1 to 3"));
  EXPECT_THAT(error_with("model", "\"stages\""), HasSubstr("knows proofs for \"fixed-order\""));
  EXPECT_THAT(error_with("model", "\"any-order\""), HasSubstr("\"chain\" goes with the model"));
  EXPECT_THAT(error_with("chain", "[1, 2]"), HasSubstr("\"chain\" goes with the model"));
  EXPECT_THAT(error_with("chain", "[0.5]"), HasSubstr("an index"));
  EXPECT_THAT(error_with("digest", "\"xyz\""), HasSubstr("16 hexadecimal digits"));
  EXPECT_THAT(error_with("digest", "\"00ab00000000cdeg\""), HasSubstr("16 hexadecimal digits"));
  EXPECT_THAT(error_with("prices", "[[1]]"), HasSubstr("\"prices\" must be a list of [op, price]"));
  EXPECT_THAT(error_with("clusters", "[[[[1], [2], [3]]]]"), HasSubstr("[ops, values]"));
  EXPECT_THAT(error_with("clusters", "[[[[1.5], [2]]]]"), HasSubstr("an index"));
  EXPECT_THAT(error_with("clusters", "[[[[-1], [2]]]]"), HasSubstr("an index"));
  EXPECT_THAT(error_with("split", R"({"value": 1})"), HasSubstr("\"cases\" is missing"));
  EXPECT_THAT(error_with("split", R"({"value": 1, "cases": [{"absent": 1, "prices": []}]})"),
              HasSubstr("\"clusters\" is missing"));
  EXPECT_THAT(error_with("split", R"({"value": 1, "cases": [], "more": 2})"), HasSubstr("more"));
  EXPECT_THAT(error_with("split", R"({"value": -1, "cases": []})"), HasSubstr("an index"));
  EXPECT_THAT(error_with("surprise", "1"), HasSubstr("surprise"));
  for (const char* key : {"format", "version", "graph", "ops", "tensors", "digest", "budget_bytes",
                          "lower_bound", "model", "prices", "clusters"}) {
    EXPECT_THAT(error_with(key, ""), HasSubstr(std::string("the key \"") + key + "\" is missing"));
    EXPECT_THAT(error_with(key, "null"), HasSubstr(key));
  }
}

TEST(CertificateIoErrors, EveryTruncation) {
  const std::string text = certify::format_certificate(sample());
  for (std::size_t length = 0; length + 2 < text.size(); ++length) {
    EXPECT_NE(error_of(text.substr(0, length)), "no error") << length;
  }
}

}  // namespace
}  // namespace lowtide::testing
