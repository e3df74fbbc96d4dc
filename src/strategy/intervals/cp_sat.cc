#include "strategy/intervals/cp_sat.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/child_process.h"
#include "base/error.h"
#include "strategy/intervals/cp_sat_program.h"

namespace lowtide::strategy::intervals {
namespace {

using nlohmann::json;

json document_of(const remat::StageGraph& graph, const CpSatRequest& request,
                 const Control& control) {
  json ops = json::array();
  for (const remat::Stage& stage : graph.stages()) {
    json overlaid = json::array();
    for (const remat::Stage::Overlay& overlay : stage.overlays) overlaid.push_back(overlay.input);
    ops.push_back({{"cost", stage.cost},
                   {"workspace", stage.workspace},
                   {"deadline", stage.deadline},
                   {"inputs", stage.inputs},
                   {"outputs", stage.outputs},
                   {"overlaid", overlaid}});
  }
  json values = json::array();
  for (const remat::StageValue& value : graph.values()) {
    values.push_back({{"bytes", value.bytes}, {"producer", value.producer}});
  }
  json start = json::array();
  for (const remat::Event& event : request.start) start.push_back({event.stage, event.op});
  return {{"ops", ops},
          {"values", values},
          {"room", request.budget - graph.resident_bytes()},
          {"intervals", request.most_intervals},
          {"threads", request.threads},
          {"seed", request.seed},
          {"seconds", control.limit_seconds() > 0 ? std::max(0.01, control.left_seconds()) : 0.0},
          {"start", start}};
}

std::vector<remat::Event> events_in(const json& pairs) {
  std::vector<remat::Event> events;
  for (const json& pair : pairs) events.push_back({pair.at(0).get<int>(), pair.at(1).get<int>()});
  return events;
}

std::string& usual_interpreter() {
  static std::string path = "python3";
  return path;
}

std::string interpreter() {
  const char* named = std::getenv("LOWTIDE_PYTHON");
  return named != nullptr ? named : usual_interpreter();
}

[[noreturn]] void refuse(const std::string& python, const std::string& errors) {
  const std::size_t end = errors.find_last_not_of('\n');
  const std::string text = errors.substr(0, end + 1);
  throw InputError(fmt::format(
      "{} cannot run CP-SAT ({}): install OR-Tools there (pip install ortools==9.11.4210), name "
      "another interpreter in the environment as LOWTIDE_PYTHON, or leave out -O solver=cp-sat",
      python, text.substr(text.rfind('\n') + 1)));
}

}  // namespace

void set_usual_interpreter(std::string path) { usual_interpreter() = std::move(path); }

CpSatProof solve_with_cp_sat(const remat::StageGraph& graph, const CpSatRequest& request,
                             const Control& control) {
  CpSatProof proof{graph.required_cost()};
  const auto read = [&](const std::string& line) {
    const json answer = json::parse(line);
    const double reruns = answer.at("bound").get<double>();
    proof.bound = std::max(proof.bound, graph.required_cost() + reruns);
    if (answer.contains("events")) request.on_solution(events_in(answer.at("events")));
    if (answer.contains("status")) proof.infeasible = answer.at("status") == "infeasible";
  };
  const std::string python = interpreter();
  const ChildResult result =
      run_child({python, "-c", kCpSatProgram}, document_of(graph, request, control).dump(), read,
                [&] { return control.should_stop(); });
  if (result.exit_code != 0 && !result.killed) refuse(python, result.errors);
  return proof;
}

}  // namespace lowtide::strategy::intervals
