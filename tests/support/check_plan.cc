#include "support/check_plan.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/file.h"
#include "graph/io.h"
#include "plan/io.h"
#include "plan/verify.h"

namespace lowtide::testing {
namespace {

namespace fs = std::filesystem;

/// A folder that is deleted with this object.
class ScratchFolder {
 public:
  ScratchFolder() {
    static std::atomic<int> count{0};
    path_ = fs::path(::testing::TempDir()) / fmt::format("lowtide-{}-{}", getpid(), count++);
    fs::create_directories(path_);
  }
  ~ScratchFolder() { fs::remove_all(path_); }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

constexpr std::string_view kScript = R"(
import json, sys
folder, tools, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
sys.path.insert(0, tools)
import check_plan
results = []
for i in range(count):
    with open(f"{folder}/graph{i}.json") as f: graph = json.load(f)
    with open(f"{folder}/plan{i}.json") as f: plan = json.load(f)
    results.append(check_plan.replay(graph, plan, plan.get("budget_bytes")))
with open(f"{folder}/results.json", "w") as f: json.dump(results, f)
)";

PythonVerdict parse_verdict(const nlohmann::json& json) {
  PythonVerdict verdict;
  verdict.valid = json.at("valid");
  if (!verdict.valid) {
    verdict.error = json.at("error");
    return verdict;
  }
  verdict.cost = json.at("cost");
  verdict.peak_bytes = json.at("peak_bytes");
  if (json.contains("arena_bytes")) verdict.arena_bytes = json.at("arena_bytes");
  return verdict;
}

::testing::AssertionResult agrees(const Plan& plan, const PythonVerdict& verdict) {
  if (!verdict.valid) return ::testing::AssertionFailure() << "check_plan.py: " << verdict.error;
  if (std::abs(verdict.cost - plan.cost) > 1e-9 * std::abs(plan.cost)) {
    return ::testing::AssertionFailure()
           << "check_plan.py finds cost " << verdict.cost << ", not " << plan.cost;
  }
  if (verdict.peak_bytes != plan.peak_bytes) {
    return ::testing::AssertionFailure()
           << "check_plan.py finds peak " << verdict.peak_bytes << ", not " << plan.peak_bytes;
  }
  if (plan.layout && verdict.arena_bytes && *verdict.arena_bytes != plan.layout->arena_bytes) {
    return ::testing::AssertionFailure() << "check_plan.py finds arena " << *verdict.arena_bytes
                                         << ", not " << plan.layout->arena_bytes;
  }
  return ::testing::AssertionSuccess();
}

}  // namespace

std::vector<PythonVerdict> python_verdicts(std::span<const PlanCase> cases) {
  const ScratchFolder folder;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    std::ofstream(folder.path() / fmt::format("graph{}.json", i)) << format_graph(*cases[i].graph);
    std::ofstream(folder.path() / fmt::format("plan{}.json", i)) << format_plan(*cases[i].plan);
  }
  const fs::path script = folder.path() / "run.py";
  std::ofstream(script) << kScript;
  const std::string command = fmt::format("python3 -I -S '{}' '{}' '{}/tools' {}", script.string(),
                                          folder.path().string(), LOWTIDE_SOURCE_DIR, cases.size());
  if (std::system(command.c_str()) != 0) throw std::runtime_error("cannot run: " + command);
  std::vector<PythonVerdict> verdicts;
  const auto results = nlohmann::json::parse(read_file(folder.path() / "results.json"));
  for (const auto& json : results) verdicts.push_back(parse_verdict(json));
  return verdicts;
}

::testing::AssertionResult are_valid_plans(std::span<const PlanCase> cases) {
  const std::vector<PythonVerdict> verdicts = python_verdicts(cases);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const auto& [graph, plan] = cases[i];
    if (const auto violation = verify(*graph, *plan)) {
      return ::testing::AssertionFailure()
             << graph->name() << ": " << name(violation->rule) << " at action "
             << violation->action << ": " << violation->message;
    }
    if (auto result = agrees(*plan, verdicts[i]); !result) {
      return result << " (" << graph->name() << ")";
    }
  }
  return ::testing::AssertionSuccess();
}

::testing::AssertionResult is_valid_plan(const Graph& graph, const Plan& plan,
                                         std::optional<Bytes> budget) {
  Plan budgeted = plan;
  if (budget) budgeted.budget_bytes = budget;
  const PlanCase one{&graph, &budgeted};
  return are_valid_plans({&one, 1});
}

}  // namespace lowtide::testing
