#include "train/checkpoint.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "base/error.h"
#include "base/file.h"
#include "train/hash.h"
#include "train/safetensors.h"

namespace lowtide::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFormat = "lowtide-checkpoint 1";
constexpr const char* kGenerator = "lowtide.generator";

StoredTensor stored(const NamedTensor& named) {
  return {.name = named.name,
          .dtype = named.dtype,
          .shape = named.shape,
          .append = [&named](const Append& append) { append(bytes_of(named.get())); }};
}

/// Hash of all metadata except the hash itself, as written.
std::uint64_t hash_of(const Metadata& metadata) {
  std::uint64_t hash = 0;
  for (const auto& [key, value] : metadata) {
    if (key != "hash") hash = hash_bytes(value, hash_bytes(key, hash));
  }
  return hash;
}

std::string written(std::uint64_t hash) { return fmt::format("{:016x}", hash); }

std::string entry(const SafetensorsReader& file, const char* key) {
  const auto it = file.metadata().find(key);
  if (it == file.metadata().end()) {
    throw InputError(fmt::format("{} is not a checkpoint of lowtide: it has no \"{}\".",
                                 file.path().string(), key));
  }
  return it->second;
}

std::int64_t step_of(const SafetensorsReader& file) {
  const std::string text = entry(file, "step");
  std::int64_t step = -1;
  std::from_chars(text.data(), text.data() + text.size(), step);
  if (step < 0) throw InputError(fmt::format("{}: \"{}\" is no step.", file.path().string(), text));
  return step;
}

RunState run_state(const SafetensorsReader& file) {
  const std::string format = entry(file, "format");
  if (format != kFormat) {
    throw InputError(fmt::format("{} has the format \"{}\", this version reads \"{}\".",
                                 file.path().string(), format, kFormat));
  }
  try {
    return {parse_options(entry(file, "options")), entry(file, "data"), step_of(file)};
  } catch (const InputError& e) {
    throw InputError(fmt::format("cannot resume from {}: {}", file.path().string(), e.what()));
  }
}

std::string type_text(DType dtype, const Shape& shape) {
  return fmt::format("{}[{}]", name(dtype), fmt::join(shape, ", "));
}

using Entries = std::map<std::string, const SafetensorsReader::Entry*>;

/// Throws for the first tensor that is missing, unexpected, or of another type.
void check_same_tensors(const SafetensorsReader& file, const Entries& entries,
                        const std::vector<NamedTensor>& tensors) {
  const auto differs = [&](const std::string& what) {
    throw InputError(
        fmt::format("{} is a checkpoint of another model: {}.", file.path().string(), what));
  };
  for (const NamedTensor& named : tensors) {
    const auto it = entries.find(named.name);
    if (it == entries.end()) differs(fmt::format("it has no tensor {}", named.name));
    const StoredTensor wanted = stored(named);
    const std::string has = type_text(it->second->dtype, it->second->shape);
    const std::string wants = type_text(wanted.dtype, wanted.shape);
    if (has != wants) differs(fmt::format("its {} is {}, this model's {}", named.name, has, wants));
  }
  if (entries.size() == tensors.size()) return;
  for (const auto& [name, unused] : entries) {
    const bool known = std::any_of(tensors.begin(), tensors.end(),
                                   [&](const NamedTensor& t) { return t.name == name; });
    if (!known) differs(fmt::format("this model has no tensor {}", name));
  }
}

}  // namespace

bool is_state(const Tensor& tensor) {
  return tensor.kind == Kind::resident && tensor.alias_of == kNone &&
         (tensor.role == Role::parameter || tensor.role == Role::buffer ||
          tensor.role == Role::optimizer_state);
}

NamedTensor in_memory(std::string name, DType dtype, const at::Tensor& tensor) {
  return {std::move(name), dtype, tensor.sizes().vec(), [tensor] { return tensor; },
          [tensor](const std::function<void(const at::Tensor&)>& fill) { fill(tensor); }};
}

at::Tensor generator_state() { return at::detail::getDefaultCPUGenerator().get_state(); }

void set_generator_state(const at::Tensor& state) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  generator.set_state(state);
}

void save_checkpoint(const fs::path& path, const RunState& state,
                     const std::vector<NamedTensor>& tensors) {
  std::vector<NamedTensor> all = tensors;
  all.push_back(in_memory(kGenerator, DType::u8, generator_state()));
  Metadata metadata = {{"format", kFormat},
                       {"options", format_options(state.options)},
                       {"data", state.data},
                       {"step", std::to_string(state.step)}};
  std::vector<StoredTensor> parts;
  std::uint64_t hash = hash_of(metadata);
  for (const NamedTensor& named : all) {
    parts.push_back(stored(named));
    hash = hash_bytes(bytes_of(named.get()), hash);
  }
  metadata["hash"] = written(hash);
  write_safetensors(path, parts, metadata);
}

RunState read_run_state(const fs::path& path) { return run_state(SafetensorsReader(path)); }

void load_checkpoint(const fs::path& path, const std::vector<NamedTensor>& tensors) {
  SafetensorsReader file(path);
  run_state(file);  // throws if this is no checkpoint
  std::vector<NamedTensor> all = tensors;
  const at::Tensor generator = generator_state();
  all.push_back(in_memory(kGenerator, DType::u8, generator));
  Entries entries;
  for (const auto& e : file.entries()) entries[e.name] = &e;
  check_same_tensors(file, entries, all);
  std::uint64_t hash = hash_of(file.metadata());
  for (const NamedTensor& named : all) {
    named.set([&](const at::Tensor& tensor) {
      const std::string_view bytes = bytes_of(tensor);
      file.read(*entries[named.name],
                {static_cast<char*>(tensor.mutable_data_ptr()), bytes.size()});
      hash = hash_bytes(bytes, hash);
    });
  }
  if (written(hash) != entry(file, "hash")) {
    throw InputError(
        fmt::format("{} is damaged: its content does not match its own hash. Resume from "
                    "another checkpoint.",
                    path.string()));
  }
  set_generator_state(generator);
}

}  // namespace lowtide::train
