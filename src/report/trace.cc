#include "report/trace.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/file.h"
#include "plan/replay.h"
#include "plan/residents.h"

namespace lowtide::report {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kProcess = 1;

double microseconds_per_unit(std::string_view cost_unit) {
  if (cost_unit == "us") return 1;
  return cost_unit == "ns" ? 1e-3 : 1e-6;
}

int track(Phase phase) { return static_cast<int>(phase) + 1; }
constexpr int kTransferTrack = 4;

/// Collects the events of one trace; `now_` is the time at which the next action begins.
class Trace {
 public:
  Trace(const Graph& graph, const Plan& plan, const Measurements& measured)
      : graph_(graph), plan_(plan), measured_(measured), runs_(graph.ops().size()) {}

  std::string text() {
    name_tracks();
    const std::vector<Bytes> planned =
        measured_.memory.empty() ? replay(graph_, plan_).memory : std::vector<Bytes>{};
    const std::span<const Bytes> memory = planned.empty() ? measured_.memory : planned;
    count("bytes in use", staying_bytes(graph_, plan_));
    if (plan_.budget_bytes) count("budget", *plan_.budget_bytes);
    for (std::size_t i = 0; i < plan_.actions.size(); ++i) {
      const double duration = microseconds(i);
      add_action(plan_.actions[i], duration);
      // A replay knows the memory during an action, a measurement the memory after it.
      if (!measured_.memory.empty()) now_ += duration;
      count("bytes in use", memory[i]);
      if (measured_.memory.empty()) now_ += duration;
    }
    if (plan_.budget_bytes) count("budget", *plan_.budget_bytes);
    text_ += "\n]}\n";
    return std::move(text_);
  }

 private:
  double microseconds(std::size_t action) const {
    if (!measured_.seconds.empty()) return 1e6 * measured_.seconds[action];
    const Action& a = plan_.actions[action];
    if (a.verb != Verb::run) return 0;
    return graph_.op(a.index).cost * microseconds_per_unit(graph_.cost_unit());
  }

  void add(const Json& event) {
    text_ += separator_;
    text_ += event.dump(-1, ' ', false, Json::error_handler_t::replace);
    separator_ = ",\n";
  }

  void name_tracks() {
    describe("process_name", 0, "name", plan_.graph.empty() ? graph_.name() : plan_.graph);
    for (Phase phase : {Phase::forward, Phase::backward, Phase::optimizer}) {
      describe("thread_name", track(phase), "name", name(phase));
      describe("thread_sort_index", track(phase), "sort_index", track(phase));
    }
    describe("thread_name", kTransferTrack, "name", "transfers");
    describe("thread_sort_index", kTransferTrack, "sort_index", kTransferTrack);
  }

  void describe(std::string_view what, int thread, std::string_view key, const Json& value) {
    add({{"ph", "M"},
         {"name", what},
         {"pid", kProcess},
         {"tid", thread},
         {"args", {{key, value}}}});
  }

  void add_action(const Action& action, double duration) {
    switch (action.verb) {
      case Verb::run: add_run(action.index, duration); break;
      case Verb::free: break;
      case Verb::offload: add_transfer("offload", action.index, duration); break;
      case Verb::prefetch: add_transfer("prefetch", action.index, duration); break;
      case Verb::wait: add_transfer("wait", action.index, duration); break;
    }
  }

  void add_run(OpId id, double duration) {
    const Op& op = graph_.op(id);
    const bool again = runs_[static_cast<std::size_t>(id)]++ > 0;
    Bytes made = 0;
    for (TensorId out : op.outputs) made += graph_.tensor(out).bytes;
    Json event{{"ph", "X"},
               {"name", again ? op.name + " again" : op.name},
               {"cat", again ? "recomputation" : "execution"},
               {"pid", kProcess},
               {"tid", track(op.phase)},
               {"ts", now_},
               {"dur", duration}};
    if (again) event["cname"] = "terrible";
    event["args"] = {{"op", id},
                     {"type", op.type},
                     {"execution", runs_[static_cast<std::size_t>(id)]},
                     {"bytes made", made},
                     {"workspace bytes", op.workspace_bytes}};
    add(event);
  }

  void add_transfer(std::string_view verb, TensorId id, double duration) {
    add({{"ph", "X"},
         {"name", std::string(verb) + " " + graph_.tensor(id).name},
         {"cat", "transfer"},
         {"pid", kProcess},
         {"tid", kTransferTrack},
         {"ts", now_},
         {"dur", duration},
         {"args", {{"tensor", id}}}});
  }

  void count(std::string_view what, Bytes bytes) {
    add({{"ph", "C"},
         {"name", what},
         {"pid", kProcess},
         {"ts", now_},
         {"args", {{"bytes", bytes}}}});
  }

  const Graph& graph_;
  const Plan& plan_;
  const Measurements& measured_;
  std::vector<int> runs_;
  double now_ = 0;
  std::string text_ = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n";
  const char* separator_ = "";
};

}  // namespace

std::string format_trace(const Graph& graph, const Plan& plan, const Measurements& measured) {
  const auto fits = [&](std::size_t count) { return count == 0 || count == plan.actions.size(); };
  if (!fits(measured.seconds.size()) || !fits(measured.memory.size())) {
    throw std::logic_error("a trace needs one measurement per action");
  }
  return Trace(graph, plan, measured).text();
}

void write_trace(const Graph& graph, const Plan& plan, const Measurements& measured,
                 const std::filesystem::path& path) {
  write_file(path, format_trace(graph, plan, measured));
}

}  // namespace lowtide::report
