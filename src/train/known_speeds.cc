#include "train/known_speeds.h"

#include <cmath>
#include <exception>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/error.h"
#include "base/file.h"
#include "train/profile_cache.h"

namespace lowtide::train {
namespace fs = std::filesystem;
namespace {

fs::path speeds_path() { return measurements_folder() / "slower-memory.json"; }

slower::Speed read_speed(const nlohmann::json& pair) {
  const slower::Speed speed{pair.at(0).get<double>(), pair.at(1).get<double>()};
  const bool is_speed = std::isfinite(speed.latency_seconds) && speed.latency_seconds >= 0 &&
                        std::isfinite(speed.bytes_per_second) && speed.bytes_per_second >= 0;
  if (!is_speed) throw InputError("no speed");
  return speed;
}

nlohmann::json speed_json(const slower::Speed& speed) {
  return nlohmann::json::array({speed.latency_seconds, speed.bytes_per_second});
}

void write_speeds(const KnownSpeeds& speeds) {
  nlohmann::json document = nlohmann::json::object();
  for (const auto& [medium, speed] : speeds) {
    document[medium] =
        nlohmann::json::array({speed_json(speed.out), speed_json(speed.in), speed.shared});
  }
  const fs::path file = speeds_path();
  make_private_folder(file.parent_path());
  write_private_file(file, document.dump(1) + "\n");
}

}  // namespace

KnownSpeeds known_speeds() {
  try {
    require_private_folder(measurements_folder());
    KnownSpeeds speeds;
    const nlohmann::json document = nlohmann::json::parse(read_file(speeds_path()));
    for (const auto& [medium, value] : document.items()) {
      speeds[medium] = {read_speed(value.at(0)), read_speed(value.at(1)), value.at(2).get<bool>()};
    }
    return speeds;
  } catch (const InputError&) {
  } catch (const nlohmann::json::exception&) {
  }
  return {};
}

std::optional<slower::LaneSpeed> known_speed(const slower::Place& place) {
  const KnownSpeeds speeds = known_speeds();
  const auto known = speeds.find(place.medium());
  return known == speeds.end() ? std::nullopt : std::optional(known->second);
}

slower::LaneSpeed measure_and_keep(const slower::Place& place) {
  const slower::LaneSpeed speed = place.measured();
  KnownSpeeds speeds = known_speeds();
  speeds[place.medium()] = speed;
  try {
    write_speeds(speeds);
  } catch (const std::exception&) {  // measured again next time
  }
  return speed;
}

}  // namespace lowtide::train
