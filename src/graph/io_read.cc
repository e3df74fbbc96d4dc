#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <complex>
#include <fstream>
#include <limits>
#include <sstream>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/json_record.h"
#include "graph/initializer_names.h"
#include "graph/io.h"

namespace lowtide {
namespace {

using JsonKind = JsonTape::Kind;

/// The enumerator among the first `count` whose name is `text`.
template <typename Enum>
std::optional<Enum> parse_name(std::string_view text, int count) {
  for (int i = 0; i < count; ++i) {
    if (name(static_cast<Enum>(i)) == text) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

[[noreturn]] void refuse_name(std::string_view expected, std::string_view found) {
  throw InputError(fmt::format("must be {}, not \"{}\"", expected, found));
}

// ---- Tensors ----------------------------------------------------------------------------------

bool read_kind(Tensor& t, JsonValue value) {
  const auto kind = parse_name<Kind>(value.text(), 2);
  if (!kind) refuse_name("\"value\" or \"resident\"", value.text());
  t.kind = *kind;
  return true;
}

bool read_dtype(Tensor& t, JsonValue value) {
  t.dtype = parse_dtype(value.text());
  return t.dtype.has_value();
}

bool read_role(Tensor& t, JsonValue value) {
  if (value.text() == "param") {
    t.role = Role::parameter;
    return true;
  }
  const auto role = parse_name<Role>(value.text(), static_cast<int>(Role::loss) + 1);
  t.role = role.value_or(Role::none);
  return role.has_value();
}

bool read_initializer(Tensor& t, JsonValue value) {
  const std::vector<JsonValue> items = value.items();
  if (items.empty()) throw InputError("must be a list that starts with a name, not an empty one");
  const InitializerName& entry = find_initializer(items[0].text());
  const auto given = static_cast<int>(items.size()) - 1;
  if (given != entry.numbers) {
    throw InputError(
        fmt::format("must give \"{}\" {} numbers, not {}", entry.name, entry.numbers, given));
  }
  t.init =
      Initializer{entry.kind, given > 0 ? items[1].number() : 0, given > 1 ? items[2].number() : 0};
  return true;
}

constexpr std::array kTensorFields = std::to_array<Field<Tensor>>({
    {"name", true,
     [](Tensor& t, JsonValue v) {
       t.name = v.text();
       return true;
     }},
    {"bytes", true,
     [](Tensor& t, JsonValue v) {
       t.bytes = v.integer();
       return true;
     }},
    {"kind", true, read_kind},
    {"alias_of", false,
     [](Tensor& t, JsonValue v) {
       t.alias_of = v.index();
       return true;
     }},
    {"dtype", false, read_dtype},
    {"shape", false,
     [](Tensor& t, JsonValue v) {
       t.shape = v.integers();
       return true;
     }},
    {"strides", false,
     [](Tensor& t, JsonValue v) {
       t.strides = v.integers();
       return true;
     }},
    {"role", false, read_role},
    {"init", false, read_initializer},
    {"gradient_of", false,
     [](Tensor& t, JsonValue v) {
       t.gradient_of = v.index();
       return true;
     }},
});

// ---- Ops --------------------------------------------------------------------------------------

bool read_phase(Op& o, JsonValue value) {
  const auto phase = parse_name<Phase>(value.text(), static_cast<int>(Phase::optimizer) + 1);
  if (!phase) refuse_name("\"forward\", \"backward\" or \"optimizer\"", value.text());
  o.phase = *phase;
  return true;
}

bool read_in_place(Op& o, JsonValue value) {
  for (JsonValue item : value.items()) {
    const std::vector<std::int32_t> pair = item.indices();
    if (pair.size() != 2) throw InputError("must be a list of [output position, input position]");
    o.inplace.push_back({pair[0], pair[1]});
  }
  return true;
}

bool read_allocations(Op& o, JsonValue value) {
  for (JsonValue item : value.items()) {
    const std::vector<std::int64_t> triple = item.integers();
    const bool good = triple.size() == 3 && triple[1] >= -1 &&
                      triple[1] <= std::numeric_limits<std::int32_t>::max();
    if (!good) throw InputError("must be a list of [bytes, output position or -1, offset]");
    o.allocations.push_back({triple[0], static_cast<int>(triple[1]), triple[2]});
  }
  return true;
}

/// A number, or the name of a number that JSON cannot express.
double read_float(JsonValue value) {
  if (!value.is(JsonKind::text)) return value.number();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (value.text() == "inf") return kInfinity;
  if (value.text() == "-inf") return -kInfinity;
  if (value.text() == "nan") return std::numeric_limits<double>::quiet_NaN();
  refuse_name("a number, \"inf\", \"-inf\" or \"nan\"", value.text());
}

std::complex<double> read_complex(JsonValue value) {
  const std::vector<JsonValue> parts = value.items();
  if (parts.size() != 2) {
    throw InputError("has a complex argument that is no list of [real part, imaginary part]");
  }
  return {read_float(parts[0]), read_float(parts[1])};
}

TensorListArg read_tensor_list(JsonValue value) {
  TensorListArg list;
  for (JsonValue item : value.items()) {
    list.positions.push_back(item.is(JsonKind::null) ? kNone : item.index());
  }
  return list;
}

Argument read_tagged_argument(JsonValue value) {
  const std::vector<JsonValue::Member> members = value.members();
  if (members.size() != 1) throw InputError("has an argument object with other than one key");
  const auto& [tag, content] = members.front();
  if (tag == "tensor") return TensorArg{content.index()};
  if (tag == "tensors") return read_tensor_list(content);
  if (tag == "float") return read_float(content);
  if (tag == "complex") return read_complex(content);
  if (tag == "floats") {
    std::vector<double> numbers;
    for (JsonValue item : content.items()) numbers.push_back(read_float(item));
    return numbers;
  }
  if (tag == "dtype") {
    if (const auto dtype = parse_dtype(content.text())) return *dtype;
    throw InputError(fmt::format("has an argument of the unknown dtype \"{}\"", content.text()));
  }
  throw InputError(fmt::format("has an argument with the unknown tag \"{}\"", tag));
}

Argument read_argument(JsonValue value) {
  switch (value.kind()) {
    case JsonKind::null: return NoneArg{};
    case JsonKind::boolean: return value.boolean();
    case JsonKind::number: return value.number();
    case JsonKind::text: return std::string(value.text());
    case JsonKind::array: return value.integers();
    case JsonKind::object: return read_tagged_argument(value);
    case JsonKind::integer:
    case JsonKind::big_integer: break;
  }
  return value.integer();
}

bool read_arguments(Op& o, JsonValue value) {
  for (JsonValue item : value.items()) o.args.push_back(read_argument(item));
  return true;
}

constexpr std::array kOpFields = std::to_array<Field<Op>>({
    {"name", true,
     [](Op& o, JsonValue v) {
       o.name = v.text();
       return true;
     }},
    {"type", false,
     [](Op& o, JsonValue v) {
       o.type = v.text();
       return true;
     }},
    {"inputs", true,
     [](Op& o, JsonValue v) {
       o.inputs = v.indices();
       return true;
     }},
    {"outputs", true,
     [](Op& o, JsonValue v) {
       o.outputs = v.indices();
       return true;
     }},
    {"cost", true,
     [](Op& o, JsonValue v) {
       o.cost = v.number();
       return true;
     }},
    {"cost_estimated", false,
     [](Op& o, JsonValue v) {
       o.cost_estimated = v.boolean();
       return true;
     }},
    {"workspace_bytes", false,
     [](Op& o, JsonValue v) {
       o.workspace_bytes = v.integer();
       return true;
     }},
    {"phase", false, read_phase},
    {"recomputable", false,
     [](Op& o, JsonValue v) {
       o.recomputable = v.boolean();
       return true;
     }},
    {"random", false,
     [](Op& o, JsonValue v) {
       o.random = v.boolean();
       return true;
     }},
    {"inplace", false, read_in_place},
    {"mutates", false,
     [](Op& o, JsonValue v) {
       o.mutates = v.indices();
       return true;
     }},
    {"args", false, read_arguments},
    {"allocations", false, read_allocations},
});

// ---- The document -----------------------------------------------------------------------------

bool read_graph_format(GraphData&, JsonValue value) {
  if (value.text() != "lowtide-graph") refuse_name("\"lowtide-graph\"", value.text());
  return true;
}

constexpr std::array kGraphFields = std::to_array<Field<GraphData>>({
    {"format", true, read_graph_format},
    {"version", true, [](GraphData&, JsonValue v) { return read_version(v, 1) == 1; }},
    {"outputs", true,
     [](GraphData& g, JsonValue v) {
       g.outputs = v.indices();
       return true;
     }},
    {"name", false,
     [](GraphData& g, JsonValue v) {
       g.name = v.text();
       return true;
     }},
    {"cost_unit", false,
     [](GraphData& g, JsonValue v) {
       g.cost_unit = v.text();
       return true;
     }},
    {"after_bytes", false,
     [](GraphData& g, JsonValue v) {
       g.after_bytes = v.integer();
       return true;
     }},
    {"device", false,
     [](GraphData& g, JsonValue v) {
       g.device = v.text();
       return true;
     }},
    {"alignment", false,
     [](GraphData& g, JsonValue v) {
       g.alignment = v.integer();
       return true;
     }},
});

constexpr std::array<std::string_view, 2> kStreamed{"tensors", "ops"};

template <typename T>
T read_element(std::string_view what, std::size_t index, JsonValue value,
               std::span<const Field<T>> fields, T element) {
  try {
    Record<T> record(fields);
    for (const auto& [key, content] : value.members()) record.read(element, key, content);
    element.extra = record.finish();
    return element;
  } catch (const InputError& error) {
    std::string name;
    if (value.is(JsonKind::object)) {
      const auto found = value.find("name");
      if (found && found->is(JsonKind::text)) name = fmt::format(" (\"{}\")", found->text());
    }
    throw InputError(fmt::format("{} {}{}: {}", what, index, name, error.what()));
  }
}

GraphData read_data(std::istream& stream) {
  GraphData data;
  Record<GraphData> header(kGraphFields);
  Op op_of_a_file;
  op_of_a_file.cost_estimated = false;
  JsonListener listener;
  listener.member = [&](std::string_view key, JsonValue value) {
    if (std::ranges::find(kStreamed, key) != kStreamed.end()) {
      throw InputError(fmt::format("\"{}\" must be a list", key));
    }
    header.read(data, key, value);
  };
  listener.element = [&](std::string_view key, std::size_t index, JsonValue value) {
    if (key == "tensors") {
      data.tensors.push_back(read_element<Tensor>("tensor", index, value, kTensorFields, Tensor{}));
    } else {
      data.ops.push_back(read_element<Op>("op", index, value, kOpFields, op_of_a_file));
    }
  };
  const std::vector<std::string> keys = read_json_object(stream, kStreamed, listener);
  data.extra = header.finish();
  for (std::string_view key : kStreamed) {
    if (std::ranges::find(keys, key) == keys.end()) {
      throw InputError(fmt::format("the key \"{}\" is missing", key));
    }
  }
  return data;
}

Graph read_graph_stream(std::istream& stream, const std::string& source) {
  return with_source(source, [&] { return Graph(read_data(stream)); });
}

}  // namespace

Graph read_graph(const std::filesystem::path& path) {
  const std::unique_ptr<std::istream> stream = open_for_reading(path);
  return read_graph_stream(*stream, path.string());
}

Graph parse_graph(std::string_view text, const std::string& source) {
  std::istringstream stream{std::string(text)};
  return read_graph_stream(stream, source);
}

}  // namespace lowtide
