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

using Tensors = std::map<std::string, const NamedTensor*>;

/// Throws for the first tensor that is missing, or of another type.
void check_tensors(const SafetensorsReader& file, const Tensors& tensors) {
  std::map<std::string, const SafetensorsReader::Entry*> entries;
  for (const auto& entry : file.entries()) entries[entry.name] = &entry;
  const auto differs = [&](const std::string& what) {
    throw InputError(
        fmt::format("{} is a checkpoint of another model: {}.", file.path().string(), what));
  };
  for (const auto& [name, named] : tensors) {
    const auto it = entries.find(name);
    if (it == entries.end()) differs(fmt::format("it has no tensor {}", name));
    const std::string has = type_text(it->second->dtype, it->second->shape);
    const std::string wants = type_text(named->dtype, named->shape);
    if (has != wants) differs(fmt::format("its {} is {}, this model's {}", name, has, wants));
  }
}

/// Reads the tensor, or only hashes it where the run has no use for it.
std::uint64_t read_entry(SafetensorsReader& file, const SafetensorsReader::Entry& entry,
                         const NamedTensor* into, std::uint64_t hash) {
  if (into == nullptr) {
    std::string unused(entry.end - entry.begin, '\0');
    file.read(entry, unused);
    return hash_bytes(unused, hash);
  }
  into->set([&](const at::Tensor& tensor) {
    const std::string_view bytes = bytes_of(tensor);
    file.read(entry, {static_cast<char*>(tensor.mutable_data_ptr()), bytes.size()});
    hash = hash_bytes(bytes, hash);
  });
  return hash;
}

/// Checked tensors, from a whole file.
void read_tensors(SafetensorsReader& file, const Tensors& tensors) {
  std::uint64_t hash = hash_of(file.metadata());
  for (const SafetensorsReader::Entry& entry : file.entries()) {
    const auto wanted = tensors.find(entry.name);
    hash = read_entry(file, entry, wanted == tensors.end() ? nullptr : wanted->second, hash);
  }
  if (written(hash) == entry(file, "hash")) return;
  throw InputError(
      fmt::format("{} is damaged: its content does not match its own hash. Take another "
                  "checkpoint.",
                  file.path().string()));
}

Tensors by_name(const std::vector<NamedTensor>& tensors) {
  Tensors result;
  for (const NamedTensor& named : tensors) result[named.name] = &named;
  return result;
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
  const at::Tensor generator = generator_state();
  const NamedTensor of_generator = in_memory(kGenerator, DType::u8, generator);
  Tensors all = by_name(tensors);
  all[kGenerator] = &of_generator;
  check_tensors(file, all);
  for (const SafetensorsReader::Entry& entry : file.entries()) {
    if (all.contains(entry.name)) continue;
    throw InputError(
        fmt::format("{} is a checkpoint of another model: this model has no tensor {}.",
                    path.string(), entry.name));
  }
  read_tensors(file, all);
  set_generator_state(generator);
}

void load_weights(const fs::path& path, const std::vector<NamedTensor>& tensors) {
  SafetensorsReader file(path);
  run_state(file);  // throws if this is no checkpoint
  const Tensors all = by_name(tensors);
  check_tensors(file, all);
  read_tensors(file, all);
}

}  // namespace lowtide::train
