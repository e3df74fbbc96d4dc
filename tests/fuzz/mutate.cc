#include "fuzz/mutate.h"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <string_view>
#include <vector>

namespace lowtide::testing {
namespace {

using Json = nlohmann::ordered_json;

const std::vector<Json>& telling_values() {
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  static const std::vector<Json> values{
      0, 1, -1, 2, 3, 7, 63, 64, 65, -2147483648, 2147483647, 2147483648, 4294967295, 4294967296,
      kMost, kMost - 1, kMost / 2, kMost / 3, std::numeric_limits<std::int64_t>::min(),
      std::numeric_limits<std::uint64_t>::max(), 1LL << 53, 1LL << 60, 0.0, -0.0, 0.5, 1e-320,
      1e18, 1e19, 1e300, 1.7e308, -1e300, nullptr, true, false, "", "value", "resident",
      Json::array(), Json::object(), Json::array({0}), Json::array({0, 0}), Json::array({-1, 0, 0}),
      Json::array({Json::array({0, 0})}), Json::array({Json::array({1, -1, 0})}),
      Json::array({kMost, 2, 0}), Json{{"tensor", 0}}, Json{{"tensors", Json::array({0, 0})}},
      Json{{"float", "nan"}}, Json{{"dtype", "f32"}}};
  return values;
}

constexpr std::array<std::string_view, 22> kKeys{
    "name",    "bytes",  "kind",    "alias_of",     "dtype",       "shape",  "strides", "role",
    "init",    "type",   "inputs",  "outputs",      "cost",        "phase",  "random",  "inplace",
    "mutates", "args",   "offsets", "recomputable", "allocations", "workspace_bytes"};

class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : random_(seed) {}

  std::string mutate(const std::string& text) {
    Json document = Json::parse(text);
    for (int i = below(3) == 0 ? 1 + below(4) : 1; i > 0; --i) change(document);
    std::string result = document.dump(-1, ' ', false, Json::error_handler_t::replace);
    if (below(12) == 0) repeat_member(result);
    for (int i = below(10) == 0 ? 1 + below(3) : 0; i > 0; --i) change_bytes(result);
    return result;
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<std::uint64_t>(n)); }
  std::size_t place(std::size_t size) { return random_() % size; }
  template <typename List>
  const auto& pick(const List& list) {
    return list[place(list.size())];
  }

  static void collect(Json& node, std::vector<Json*>& nodes) {
    nodes.push_back(&node);
    if (node.is_structured()) {
      for (Json& child : node) collect(child, nodes);
    }
  }

  void change(Json& document) {
    std::vector<Json*> nodes;
    collect(document, nodes);
    Json& node = *pick(nodes);
    switch (below(10)) {
      case 0: node = Json(*pick(nodes)); break;
      case 1: node = pick(telling_values()); break;
      case 2: node = nested(node, below(10) == 0 ? 100 : 1); break;
      default: change_one(node, *pick(nodes)); break;
    }
  }

  Json nested(Json node, int levels) {
    for (int i = 0; i < levels; ++i) {
      node = below(2) == 0 ? Json::array({std::move(node)}) : Json{{"a", std::move(node)}};
    }
    return node;
  }

  void change_one(Json& node, const Json& other) {
    if (node.is_object()) {
      change_object(node);
    } else if (node.is_array()) {
      change_array(node);
    } else if (node.is_boolean()) {
      node = !node.get<bool>();
    } else if (node.is_number_integer() && below(3) > 0) {
      // Unsigned, so that it wraps.
      node = static_cast<std::int64_t>(node.get<std::uint64_t>() + random_() % 5 - 2);
    } else if (node.type() == other.type()) {
      node = Json(other);
    } else {
      node = pick(telling_values());
    }
  }

  void change_object(Json& node) {
    const std::string key(pick(kKeys));
    if (node.empty() || below(3) == 0) {
      node[key] = pick(telling_values());
      return;
    }
    auto member = node.begin();
    std::advance(member, place(node.size()));
    if (below(2) == 0) node[key] = Json(member.value());
    else node.erase(member);
  }

  void change_array(Json& node) {
    if (node.empty()) {
      node.push_back(pick(telling_values()));
      return;
    }
    const std::size_t at = place(node.size()), other = place(node.size());
    switch (below(4)) {
      case 0: node.erase(at); break;
      case 1: std::swap(node[at], node[other]); break;
      default:
        node.insert(node.begin() + static_cast<std::ptrdiff_t>(at), Json(node[other]));
        break;
    }
  }

  /// "key":1,"key":1 for a member whose value is simple.
  void repeat_member(std::string& text) {
    const std::size_t begin = text.find(",\"", place(text.size()));
    const std::size_t end = text.find_first_of(",{}[]", begin == text.npos ? begin : begin + 1);
    if (begin == text.npos || end == text.npos) return;
    text.insert(begin, text.substr(begin, end - begin));
  }

  void change_bytes(std::string& text) {
    if (text.empty()) return;
    const std::size_t at = place(text.size());
    const std::size_t length = std::min(text.size() - at, place(32) + 1);
    switch (below(6)) {
      case 0: text[at] = static_cast<char>(random_()); break;
      case 1: text[at] = static_cast<char>(text[at] ^ (1 << below(8))); break;
      case 2: text.erase(at, length); break;
      case 3: text.insert(place(text.size()), text.substr(at, length)); break;
      case 4: text.insert(at, pick(telling_values()).dump()); break;
      default: text.resize(at); break;
    }
  }

  std::mt19937_64 random_;
};

}  // namespace

std::string mutated(const std::string& text, std::uint64_t seed) {
  return Mutator(seed).mutate(text);
}

}  // namespace lowtide::testing
