#include <ATen/Context.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cost/device_rates.h"
#include "device/device.h"
#include "report/table.h"
#include "train/known_speeds.h"

namespace lowtide::cli {
namespace {

/// A device of this machine. `why_not`: why no step is run there, and what to do; "" where one is.
struct Found {
  std::string device;
  std::string what;
  std::optional<device::DeviceMemory> memory;
  std::string why_not;
};

Found runs_on(const device::ComputeDevice& device) {
  return {device.torch_device().str(), device.name(), device.memory(), ""};
}

/// A GPU that LibTorch has, which Lowtide may know.
Found gpu(c10::DeviceIndex index) {
  const c10::Device device(c10::DeviceType::CUDA, index);
  try {
    return runs_on(device::device_of(device));
  } catch (const InputError&) {
    return {device.str(), "a GPU", std::nullopt,
            "this lowtide runs steps on the CPU alone: plan for the GPU with `python -m lowtide "
            "capture --device cuda`, and use the plan as a policy for checkpointing"};
  }
}

/// The GPUs of this machine, or one line that says why there is none.
std::vector<Found> gpus() {
  if (!at::globalContext().hasCUDA()) {
    return {{"cuda", "no GPU", std::nullopt,
             "this LibTorch is built for CPUs: to plan for a GPU all the same, use `python -m "
             "lowtide capture --device cuda --like h100`"}};
  }
  const c10::impl::DeviceGuardImplInterface* const guard =
      c10::impl::getDeviceGuardImpl(c10::DeviceType::CUDA);
  std::vector<Found> found;
  for (c10::DeviceIndex index = 0; index < guard->deviceCount(); ++index) {
    found.push_back(gpu(index));
  }
  if (found.empty()) {
    found.push_back({"cuda", "no GPU", std::nullopt,
                     "LibTorch finds none: `nvidia-smi` says whether the driver does"});
  }
  return found;
}

nlohmann::json found_json(const Found& found) {
  nlohmann::json entry = {
      {"device", found.device}, {"name", found.what}, {"supported", found.why_not.empty()}};
  if (found.memory) {
    entry["memory_bytes"] = found.memory->total;
    entry["free_bytes"] = found.memory->free;
  }
  if (!found.why_not.empty()) entry["why_not"] = found.why_not;
  return entry;
}

nlohmann::json rates_json(const cost::DeviceRates& rates) {
  nlohmann::json flops = nlohmann::json::object();
  for (const auto& [dtype, rate] : rates.flops_per_second) flops[std::string(name(dtype))] = rate;
  nlohmann::json entry = {{"name", rates.name},
                          {"title", rates.title},
                          {"flops_per_second", flops},
                          {"bytes_per_second", rates.bytes_per_second},
                          {"seconds_per_op", rates.seconds_per_op}};
  if (rates.memory_bytes > 0) entry["memory_bytes"] = rates.memory_bytes;
  return entry;
}

nlohmann::json speed_json(const std::string& medium, const slower::LaneSpeed& speed) {
  const auto lane = [](const slower::Speed& one) {
    return nlohmann::json{{"latency_seconds", one.latency_seconds},
                          {"bytes_per_second", one.bytes_per_second}};
  };
  return {{"medium", medium},
          {"out", lane(speed.out)},
          {"in", lane(speed.in)},
          {"one_at_a_time", speed.shared}};
}

/// Slower memory that was measured: by train --disk, or for lowtide.wrap(offload=...).
std::string speeds_text() {
  report::Table table({"slower memory", "out GB/s", "in GB/s", "both at once"},
                      report::Table::Align::left);
  const train::KnownSpeeds speeds = train::known_speeds();
  const auto rate = [](const slower::Speed& speed) {
    return speed.bytes_per_second > 0 ? fmt::format("{:.2g}", speed.bytes_per_second / 1e9)
                                      : std::string("no limit");
  };
  for (const auto& [medium, speed] : speeds) {
    table.add({medium, rate(speed.out), rate(speed.in), speed.shared ? "slower" : "yes"});
  }
  return speeds.empty() ? "" : "\nCopies were measured to:\n" + table.text(output_columns());
}

std::string text_of(const std::vector<Found>& devices) {
  using report::Table;
  Table table({"device", "what", "memory", "free", "steps run there"}, Table::Align::left);
  std::string notes;
  for (const Found& found : devices) {
    const auto bytes = [&](Bytes device::DeviceMemory::* part) {
      return bytes_or_dash(found.memory ? std::optional((*found.memory).*part) : std::nullopt);
    };
    table.add({found.device, found.what, bytes(&device::DeviceMemory::total),
               bytes(&device::DeviceMemory::free), found.why_not.empty() ? "yes" : "no"});
    if (!found.why_not.empty()) notes += fmt::format("{}: {}.\n", found.device, found.why_not);
  }
  Table known({"--like", "what", "memory", "f32 TFLOP/s", "bf16 TFLOP/s", "GB/s"},
              Table::Align::left);
  for (const cost::DeviceRates& rates : cost::known_devices()) {
    const Bytes memory = rates.memory_bytes;
    known.add({rates.name, rates.title,
               bytes_or_dash(memory > 0 ? std::optional(memory) : std::nullopt),
               fmt::format("{:g}", rates.flops(DType::f32) / 1e12),
               fmt::format("{:g}", rates.flops(DType::bf16) / 1e12),
               fmt::format("{:g}", rates.bytes_per_second / 1e9)});
  }
  return table.text(output_columns()) + notes + speeds_text() + "\nTimes are estimated for:\n" +
         known.text(output_columns());
}

int list_devices(bool json) {
  std::vector<Found> devices = {runs_on(device::cpu_device())};
  for (Found& found : gpus()) devices.push_back(std::move(found));
  if (!json) {
    print(text_of(devices));
    return kSuccess;
  }
  nlohmann::json here = nlohmann::json::array(), known = nlohmann::json::array();
  for (const Found& found : devices) here.push_back(found_json(found));
  for (const cost::DeviceRates& rates : cost::known_devices()) known.push_back(rates_json(rates));
  nlohmann::json slower = nlohmann::json::array();
  for (const auto& [medium, speed] : train::known_speeds())
    slower.push_back(speed_json(medium, speed));
  print_json({{"devices", here}, {"slower_memory", slower}, {"like", known}});
  return kSuccess;
}

}  // namespace

Action define_devices(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  add_json_flag(app, *json);
  add_help(
      app,
      "Lists the CPU and the GPUs of this machine with their memory, whether steps run there,\n"
      "how fast slower memory is, as train --disk measured it so far, and the devices by whose "
      "data\n"
      "sheets times can be estimated (--like).",
      "  lowtide devices\n  lowtide graph --model resnet50 --like a100 -o resnet50.json\n");
  return [json] { return list_devices(*json); };
}

}  // namespace lowtide::cli
