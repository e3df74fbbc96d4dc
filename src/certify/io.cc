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
#include "plan/lanes_json.h"

namespace lowtide::certify {
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

bool read_prices(Certificate::Proof& proof, JsonValue value) {
  for (JsonValue item : value.items()) proof.prices.push_back(read_price(item));
  return true;
}

bool read_clusters(Certificate::Proof& proof, JsonValue value) {
  for (JsonValue cluster : value.items()) {
    proof.clusters.emplace_back();
    for (JsonValue item : cluster.items()) proof.clusters.back().push_back(read_rerun(item));
  }
  return true;
}

/// Reads an object with exactly the keys of the fields.
template <typename T>
T read_object(JsonValue value, std::span<const Field<T>> fields, std::string_view what) {
  T object;
  Record<T> record(fields);
  for (const auto& [key, member] : value.members()) record.read(object, key, member);
  if (const std::string unknown = record.finish(); !unknown.empty()) {
    throw InputError(fmt::format("has {} with unknown keys: {}", what, unknown));
  }
  return object;
}

constexpr std::array kCaseFields = std::to_array<Field<Certificate::Case>>({
    {"absent", false,
     [](Certificate::Case& c, JsonValue v) {
       c.absent = v.index();
       return true;
     }},
    {"prices", true, [](Certificate::Case& c, JsonValue v) { return read_prices(c.proof, v); }},
    {"clusters", true, [](Certificate::Case& c, JsonValue v) { return read_clusters(c.proof, v); }},
});

bool read_cases(Certificate::Split& split, JsonValue value) {
  for (JsonValue item : value.items()) {
    split.cases.push_back(read_object<Certificate::Case>(item, kCaseFields, "a case"));
  }
  return true;
}

constexpr std::array kSplitFields = std::to_array<Field<Certificate::Split>>({
    {"value", true,
     [](Certificate::Split& s, JsonValue v) {
       s.value = v.index();
       return true;
     }},
    {"cases", true, read_cases},
});

bool read_split(Certificate& certificate, JsonValue value) {
  certificate.split = read_object<Certificate::Split>(value, kSplitFields, "a split");
  return true;
}

using Moves = Certificate::Moves;
constexpr std::array kMovesFields = std::to_array<Field<Moves>>({
    {"lane_out", true,
     [](Moves& m, JsonValue v) {
       m.lanes.out = read_lane(v);
       return true;
     }},
    {"lane_in", true,
     [](Moves& m, JsonValue v) {
       m.lanes.in = read_lane(v);
       return true;
     }},
    {"lanes_shared", true,
     [](Moves& m, JsonValue v) {
       m.lanes.shared = v.boolean();
       return true;
     }},
    {"weight", true,
     [](Moves& m, JsonValue v) {
       m.weight = v.number();
       return true;
     }},
    {"residents", false,
     [](Moves& m, JsonValue v) {
       m.residents = v.boolean();
       return true;
     }},
});

bool read_moves(Certificate& certificate, JsonValue value) {
  certificate.moves = read_object<Moves>(value, kMovesFields, "moves");
  return true;
}

constexpr std::array kFields = std::to_array<Field<Certificate>>({
    {"format", true, read_format},
    {"version", true, [](Certificate&, JsonValue v) { return read_version(v, 3) > 0; }},
    {"graph", true,
     [](Certificate& c, JsonValue v) {
       c.graph = v.text();
       return true;
     }},
    {"ops", true,
     [](Certificate& c, JsonValue v) {
       c.num_ops = v.index();
       return true;
     }},
    {"tensors", true,
     [](Certificate& c, JsonValue v) {
       c.num_tensors = v.index();
       return true;
     }},
    {"digest", true, read_digest},
    {"budget_bytes", true,
     [](Certificate& c, JsonValue v) {
       c.budget_bytes = v.integer();
       return true;
     }},
    {"lower_bound", true,
     [](Certificate& c, JsonValue v) {
       c.lower_bound = v.number();
       return true;
     }},
    {"model", true, read_model},
    {"chain", false, read_chain},
    {"prices", true, [](Certificate& c, JsonValue v) { return read_prices(c.proof, v); }},
    {"clusters", true, [](Certificate& c, JsonValue v) { return read_clusters(c.proof, v); }},
    {"split", false, read_split},
    {"moves", false, read_moves},
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
      throw InputError(fmt::format("the certificate has unknown keys: {}", unknown));
    }
    if (any_order != certificate.chain.has_value()) {
      throw InputError("the key \"chain\" goes with the model \"any-order\", and with no other");
    }
    return certificate;
  });
}

// ---- Writing ----------------------------------------------------------------------------------

Json rerun_json(const Certificate::Rerun& rerun) { return Json::array({rerun.ops, rerun.values}); }

std::string cluster_text(const Certificate::Cluster& cluster) {
  Json json = Json::array();
  for (const Certificate::Rerun& rerun : cluster) json.push_back(rerun_json(rerun));
  return json.dump();
}

/// One item per line, so that files can be compared by line.
template <typename Items, typename Format>
std::string lines(const Items& items, Format format) {
  std::string text = "[";
  const char* separator = "\n  ";
  for (const auto& item : items) {
    text += separator + format(item);
    separator = ",\n  ";
  }
  return text + "]";
}

std::string proof_text(const Certificate::Proof& proof) {
  const auto price_text = [](const Certificate::Price& p) {
    return Json::array({p.op, p.price}).dump();
  };
  return "\"prices\": " + lines(proof.prices, price_text) +
         ",\n \"clusters\": " + lines(proof.clusters, cluster_text);
}

std::string case_text(const Certificate::Case& c) {
  const std::string absent = c.absent == kNone ? "null" : std::to_string(c.absent);
  return "{\"absent\": " + absent + ",\n " + proof_text(c.proof) + "}";
}

std::string split_text(const Certificate::Split& split) {
  return fmt::format("{{\"value\": {}, \"cases\": {}}}", split.value,
                     lines(split.cases, case_text));
}

/// Earlier programs read what they can check.
int version_of(const Certificate& certificate) {
  if (!certificate.moves) return 1;
  return certificate.moves->residents ? 3 : 2;
}

std::string moves_text(const Certificate::Moves& moves) {
  Json json{{"lane_out", lane_json(moves.lanes.out)},
            {"lane_in", lane_json(moves.lanes.in)},
            {"lanes_shared", moves.lanes.shared},
            {"weight", moves.weight}};
  if (moves.residents) json["residents"] = true;
  return json.dump();
}

}  // namespace

Certificate read_certificate(const std::filesystem::path& path) {
  const std::unique_ptr<std::istream> stream = open_for_reading(path);
  return read_stream(*stream, path.string());
}

Certificate parse_certificate(std::string_view text, const std::string& source) {
  std::istringstream stream{std::string(text)};
  return read_stream(stream, source);
}

std::string format_certificate(const Certificate& c) {
  Json header{{"format", "lowtide-certificate"},
              {"version", version_of(c)},
              {"graph", c.graph},
              {"ops", c.num_ops},
              {"tensors", c.num_tensors},
              {"digest", fmt::format("{:016x}", c.digest)},
              {"budget_bytes", c.budget_bytes},
              {"lower_bound", c.lower_bound},
              {"model", c.chain ? kAnyOrder : "fixed-order"}};
  if (c.chain) header["chain"] = *c.chain;
  // Names may contain any bytes; JSON allows only UTF-8.
  std::string text = header.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.pop_back();
  text += ",\n " + proof_text(c.proof);
  if (c.split) text += ",\n \"split\": " + split_text(*c.split);
  if (c.moves) text += ",\n \"moves\": " + moves_text(*c.moves);
  return text + "}\n";
}

void write_certificate(const Certificate& certificate, const std::filesystem::path& path) {
  write_file(path, format_certificate(certificate));
}

}  // namespace lowtide::certify
