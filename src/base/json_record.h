#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <ios>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>

#include "base/error.h"
#include "base/json_reader.h"

namespace lowtide {

/// A key of a format and its reader. `read` returns false for a value that the library does not
/// use: the key is then kept like an unknown one.
template <typename T>
struct Field {
  std::string_view key;
  bool required;
  bool (*read)(T& into, JsonValue value);
};

/// Reads members into an object by a table of fields, and keeps the unknown ones.
template <typename T>
class Record {
 public:
  explicit Record(std::span<const Field<T>> fields) : fields_(fields) {}

  void read(T& into, std::string_view key, JsonValue value) {
    const Field<T>* field = find(key);
    if (field == nullptr) return keep(key, value);
    const std::uint32_t bit = 1U << (field - fields_.data());
    if ((seen_ & bit) != 0) throw InputError(fmt::format("the key \"{}\" appears twice", key));
    if (value.is(JsonTape::Kind::null) && !field->required) return;
    seen_ |= bit;
    try {
      if (!field->read(into, value)) keep(key, value);
    } catch (const InputError& error) {
      throw InputError(fmt::format("\"{}\" {}", key, error.what()));
    }
  }

  /// Throws for a missing required key; returns the unknown keys as a JSON text.
  std::string finish() const {
    for (std::size_t i = 0; i < fields_.size(); ++i) {
      if (fields_[i].required && (seen_ >> i & 1U) == 0) {
        throw InputError(fmt::format("the key \"{}\" is missing", fields_[i].key));
      }
    }
    return extra_.empty() ? "" : nlohmann::ordered_json(extra_).dump();
  }

 private:
  const Field<T>* find(std::string_view key) const {
    for (const Field<T>& field : fields_) {
      if (field.key == key) return &field;
    }
    return nullptr;
  }

  /// Avoids ordered_json's own insertion by key, which looks through all members.
  void keep(std::string_view key, JsonValue value) {
    if (!kept_.emplace(key).second) {
      throw InputError(fmt::format("the key \"{}\" appears twice", key));
    }
    extra_.push_back({std::string(key), value.to_json()});
  }

  std::span<const Field<T>> fields_;
  std::uint32_t seen_ = 0;
  nlohmann::ordered_json::object_t extra_;
  std::unordered_set<std::string> kept_;  // the keys of extra_
};

/// The version of a format, of which this program reads all up to `newest`.
inline std::int64_t read_version(JsonValue value, std::int64_t newest) {
  const std::int64_t version = value.integer();
  if (version >= 1 && version <= newest) return version;
  throw InputError(fmt::format("is {}; this program reads version{}", version,
                               newest == 1 ? std::string(" 1") : fmt::format("s 1 to {}", newest)));
}

/// Calls read(), and puts the name of the source before the message of an error.
template <typename Read>
auto with_source(const std::string& source, Read read) {
  try {
    return read();
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: {}", source, error.what()));
  } catch (const std::ios_base::failure&) {
    throw InputError(fmt::format("{}: the disk or device failed while it was read", source));
  }
}

}  // namespace lowtide
