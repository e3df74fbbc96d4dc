#include "certify/io.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "base/json_record.h"

namespace lowtide {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kAnyOrder = "any-order";

// ---- Reading ----------------------------------------------------------------------------------

/// The two items of a list such as [op, price].
std::array<JsonValue, 2> read_pair(JsonValue value, std::string_view form) {
  const std::vector<JsonValue> items = value.items();
  if (items.size() != 2) throw InputError(fmt::format("must be a list of {}", form));
  return {items[0], items[1]};
}

Certificate::Price read_price(JsonValue value) {
  const auto [op, price] = read_pair(value, "[op, price]");
  return {op.index(), price.number()};
}

Certificate::Rerun read_rerun(JsonValue value) {
  const auto [ops, values] = read_pair(value, "[ops, values]");
  return {ops.indices(), values.indices()};
}

bool read_format(Certificate&, JsonValue value) {
  if (value.text() == "lowtide-certificate") return true;
  throw InputError(fmt::format("must be \"lowtide-certificate\", not \"{}\"", value.text()));
}

bool read_model(Certificate&, JsonValue value) {
  if (value.text() == "fixed-order") return true;
  if (value.text() == kAnyOrder) return true;
  throw InputError(fmt::format(
      "is \"{}\"; this program knows proofs for \"fixed-order\" and \"any-order\"", value.text()));
}

bool read_chain(Certificate& certificate, JsonValue value) {
  certificate.chain = value.indices();
  return true;
}

bool read_digest(Certificate& certificate, JsonValue value) {
  const std::string_view text = value.text();
  const auto [stop, error] =
      std::from_chars(text.data(), text.data() + text.size(), certificate.digest, 16);
  if (error == std::errc() && stop == text.data() + text.size() && text.size() == 16) return true;
  throw InputError(fmt::format("must be 16 hexadecimal digits, not \"{}\"", text));
}

bool read_prices(Certificate& certificate, JsonValue value) {
  for (JsonValue item : value.items()) certificate.prices.push_back(read_price(item));
  return true;
}

bool read_clusters(Certificate& certificate, JsonValue value) {
  for (JsonValue cluster : value.items()) {
    certificate.clusters.emplace_back();
    for (JsonValue item : cluster.items()) {
      certificate.clusters.back().push_back(read_rerun(item));
    }
  }
  return true;
}

constexpr std::array kFields = std::to_array<Field<Certificate>>({
    {"format", true, read_format},
    {"version", true, [](Certificate&, JsonValue v) { return read_version_1(v); }},
    {"graph", true, [](Certificate& c, JsonValue v) { c.graph = v.text(); return true; }},
    {"ops", true, [](Certificate& c, JsonValue v) { c.num_ops = v.index(); return true; }},
    {"tensors", true, [](Certificate& c, JsonValue v) { c.num_tensors = v.index(); return true; }},
    {"digest", true, read_digest},
    {"budget_bytes", true,
     [](Certificate& c, JsonValue v) { c.budget_bytes = v.integer(); return true; }},
    {"lower_bound", true,
     [](Certificate& c, JsonValue v) { c.lower_bound = v.number(); return true; }},
    {"model", true, read_model},
    {"chain", false, read_chain},
    {"prices", true, read_prices},
    {"clusters", true, read_clusters},
});

Certificate read_stream(std::istream& stream, const std::string& source) {
  return with_source(source, [&] {
    Certificate certificate;
    Record<Certificate> record(kFields);
    JsonListener listener;
    bool any_order = false;
    listener.member = [&](std::string_view key, JsonValue value) {
      record.read(certificate, key, value);
      if (key == "model") any_order = value.text() == kAnyOrder;
    };
    read_json_object(stream, {}, listener);
    if (const std::string unknown = record.finish(); !unknown.empty()) {
      throw InputError(fmt::format("a certificate has no such keys: {}", unknown));
    }
    if (any_order != certificate.chain.has_value()) {
      throw InputError("the key \"chain\" goes with the model \"any-order\", and with no other");
    }
    return certificate;
  });
}

// ---- Writing ----------------------------------------------------------------------------------

Json rerun_json(const Certificate::Rerun& rerun) { return Json::array({rerun.ops, rerun.values}); }

Json cluster_json(const Certificate::Cluster& cluster) {
  Json json = Json::array();
  for (const Certificate::Rerun& rerun : cluster) json.push_back(rerun_json(rerun));
  return json;
}

/// One item a line, so that two files can be compared by line.
template <typename Items, typename Format>
std::string lines(const Items& items, Format format) {
  std::string text = "[";
  const char* separator = "\n  ";
  for (const auto& item : items) {
    text += separator + format(item).dump();
    separator = ",\n  ";
  }
  return text + "]";
}

}  // namespace

Certificate read_certificate(const std::filesystem::path& path) {
  std::ifstream stream = open_for_reading(path);
  return read_stream(stream, path.string());
}

Certificate parse_certificate(std::string_view text, const std::string& source) {
  std::istringstream stream{std::string(text)};
  return read_stream(stream, source);
}

std::string format_certificate(const Certificate& c) {
  Json header{{"format", "lowtide-certificate"},
              {"version", 1},
              {"graph", c.graph},
              {"ops", c.num_ops},
              {"tensors", c.num_tensors},
              {"digest", fmt::format("{:016x}", c.digest)},
              {"budget_bytes", c.budget_bytes},
              {"lower_bound", c.lower_bound},
              {"model", c.chain ? kAnyOrder : "fixed-order"}};
  if (c.chain) header["chain"] = *c.chain;
  // Names may hold any bytes; JSON only UTF-8.
  std::string text = header.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.pop_back();
  text += ",\n \"prices\": " + lines(c.prices, [](const Certificate::Price& p) {
            return Json::array({p.op, p.price});
          });
  text += ",\n \"clusters\": " + lines(c.clusters, cluster_json);
  return text + "}\n";
}

void write_certificate(const Certificate& certificate, const std::filesystem::path& path) {
  write_file(path, format_certificate(certificate));
}

}  // namespace lowtide
