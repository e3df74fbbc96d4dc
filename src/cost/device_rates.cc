#include "cost/device_rates.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/nearest.h"
#include "cost/devices_json.h"

namespace lowtide::cost {
namespace {

DeviceRates rates_from(const nlohmann::json& entry) {
  DeviceRates rates;
  rates.name = entry.at("name").get<std::string>();
  rates.title = entry.at("title").get<std::string>();
  rates.maker = entry.value("maker", "");
  for (const auto& [dtype, rate] : entry.at("flops_per_second").items()) {
    rates.flops_per_second[parse_dtype(dtype).value()] = rate.get<double>();
  }
  rates.bytes_per_second = entry.at("bytes_per_second").get<double>();
  rates.seconds_per_op = entry.at("seconds_per_op").get<double>();
  rates.seconds_per_view = entry.at("seconds_per_view").get<double>();
  rates.memory_bytes = entry.value("memory_bytes", Bytes{0});
  if (entry.contains("compute_capability")) {
    rates.cuda_capability = entry.at("compute_capability").get<std::pair<int, int>>();
  }
  return rates;
}

std::vector<DeviceRates> all_devices() {
  std::vector<DeviceRates> devices;
  const nlohmann::json document = nlohmann::json::parse(kDevicesJson);
  for (const nlohmann::json& entry : document.at("devices")) {
    devices.push_back(rates_from(entry));
  }
  return devices;
}

DType real_part(DType dtype) {
  if (dtype == DType::c128) return DType::f64;
  return dtype == DType::c64 ? DType::f32 : dtype;
}

}  // namespace

double DeviceRates::flops(DType dtype) const {
  const auto rate = flops_per_second.find(real_part(dtype));
  return rate == flops_per_second.end() ? flops_per_second.at(DType::f32) : rate->second;
}

const std::vector<DeviceRates>& known_devices() {
  static const std::vector<DeviceRates> devices = all_devices();
  return devices;
}

const DeviceRates& find_device(std::string_view name) {
  const auto& devices = known_devices();
  const auto found = std::ranges::find(devices, name, &DeviceRates::name);
  if (found != devices.end()) return *found;
  std::vector<std::string> names;
  for (const DeviceRates& device : devices) names.push_back(device.name);
  throw InputError(fmt::format("no rates are known of a device \"{}\".{} Known are {}.", name,
                               did_you_mean(name, names), fmt::join(names, ", ")));
}

const DeviceRates& default_rates() {
  static const DeviceRates& rates = find_device("cpu");
  return rates;
}

}  // namespace lowtide::cost
