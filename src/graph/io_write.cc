#include <fmt/format.h>

#include <cmath>
#include <complex>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "graph/initializer_names.h"
#include "graph/io.h"

namespace lowtide {
namespace {

using Json = nlohmann::ordered_json;

/// Names may contain any bytes; JSON allows only UTF-8.
std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void append_extra(Json& json, const std::string& extra) {
  if (!extra.empty()) json.update(Json::parse(extra));
}

/// A number, or the name of a number that JSON cannot express.
Json float_json(double number) {
  if (std::isfinite(number)) return number;
  return std::isnan(number) ? "nan" : number > 0 ? "inf" : "-inf";
}

struct ArgumentJson {
  Json operator()(NoneArg) const { return nullptr; }
  Json operator()(const TensorArg& arg) const { return {{"tensor", arg.position}}; }
  Json operator()(const TensorListArg& arg) const {
    Json positions = Json::array();
    for (int position : arg.positions) {
      positions.push_back(position == kNone ? Json() : Json(position));
    }
    return {{"tensors", std::move(positions)}};
  }
  Json operator()(bool value) const { return value; }
  Json operator()(std::int64_t value) const { return value; }
  Json operator()(double value) const {
    if (std::isfinite(value)) return value;
    return {{"float", float_json(value)}};
  }
  Json operator()(std::complex<double> value) const {
    return {{"complex", Json::array({float_json(value.real()), float_json(value.imag())})}};
  }
  Json operator()(const std::vector<std::int64_t>& values) const { return values; }
  Json operator()(const std::vector<double>& values) const {
    Json floats = Json::array();
    for (double value : values) floats.push_back(float_json(value));
    return {{"floats", floats}};
  }
  Json operator()(DType dtype) const { return {{"dtype", name(dtype)}}; }
  Json operator()(const std::string& text) const { return text; }
};

Json initializer_json(const Initializer& init) {
  const InitializerName& entry = find_initializer(init.kind);
  Json json = Json::array({entry.name});
  if (entry.numbers > 0) json.push_back(init.a);
  if (entry.numbers > 1) json.push_back(init.b);
  return json;
}

Json tensor_json(const Tensor& t) {
  Json json{{"name", t.name}, {"bytes", t.bytes}, {"kind", name(t.kind)}};
  if (t.alias_of != kNone) json["alias_of"] = t.alias_of;
  if (t.dtype) json["dtype"] = name(*t.dtype);
  // A scalar's shape is empty: the dtype then shows that the shape is known.
  if (t.dtype || !t.shape.empty()) json["shape"] = t.shape;
  if (!t.strides.empty()) json["strides"] = t.strides;
  if (t.role != Role::none) json["role"] = name(t.role);
  if (t.init) json["init"] = initializer_json(*t.init);
  if (t.gradient_of != kNone) json["gradient_of"] = t.gradient_of;
  append_extra(json, t.extra);
  return json;
}

Json op_json(const Op& o) {
  Json json{{"name", o.name},
            {"type", o.type},
            {"inputs", o.inputs},
            {"outputs", o.outputs},
            {"cost", o.cost}};
  if (o.cost_estimated) json["cost_estimated"] = true;
  if (o.workspace_bytes != 0) json["workspace_bytes"] = o.workspace_bytes;
  json["phase"] = name(o.phase);
  if (!o.recomputable) json["recomputable"] = false;
  if (o.random) json["random"] = true;
  for (const InPlace& pair : o.inplace) {
    json["inplace"].push_back(Json::array({pair.output, pair.input}));
  }
  if (!o.mutates.empty()) json["mutates"] = o.mutates;
  for (const Argument& argument : o.args) {
    json["args"].push_back(std::visit(ArgumentJson{}, argument));
  }
  for (const Allocation& a : o.allocations) {
    json["allocations"].push_back(Json::array({a.bytes, a.output, a.offset}));
  }
  append_extra(json, o.extra);
  return json;
}

/// One element per line, so that files can be compared by line.
template <typename T>
void append_elements(std::string& text, std::string_view key, std::span<const T> elements,
                     Json (*to_json)(const T&)) {
  text += fmt::format(" \"{}\": [", key);
  const char* separator = "\n  ";
  for (const T& element : elements) {
    text += separator + dump(to_json(element));
    separator = ",\n  ";
  }
  text += "],\n";
}

}  // namespace

std::string format_graph(const Graph& graph) {
  const GraphData& data = graph.data();
  Json header{{"format", "lowtide-graph"},
              {"version", 1},
              {"name", data.name},
              {"cost_unit", data.cost_unit}};
  if (!data.device.empty()) header["device"] = data.device;
  if (data.alignment != kArenaAlignment) header["alignment"] = data.alignment;
  if (data.after_bytes != 0) header["after_bytes"] = data.after_bytes;
  append_extra(header, data.extra);

  std::string text = "{";
  for (const auto& [key, value] : header.items()) {
    text += fmt::format("{}: {},\n ", dump(key), dump(value));
  }
  text.pop_back();
  append_elements(text, "tensors", graph.tensors(), tensor_json);
  append_elements(text, "ops", graph.ops(), op_json);
  text += fmt::format(" \"outputs\": {}}}\n", dump(data.outputs));
  return text;
}

void write_graph(const Graph& graph, const std::filesystem::path& path) {
  write_file(path, format_graph(graph));
}

}  // namespace lowtide
