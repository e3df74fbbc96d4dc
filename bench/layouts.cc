// How fast and how low buffers with known lives are packed: CPU seconds, height and bound on files
// in MiniMalloc's format; with the CPU seconds of MiniMalloc's own program if its path is given.
// Prints a table. --help lists the options.

#include <fmt/format.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "bench_main.h"
#include "packing/csv.h"
#include "packing/solve.h"

namespace lowtide::bench {
namespace {

namespace fs = std::filesystem;

constexpr double kClose = 0.5;  // percent above the bound

struct Arguments {
  std::vector<std::string> files;
  Bytes capacity = 0;
  Bytes alignment = 1;
  std::int64_t work = 10 * packing::kPackingWork;
  int rounds = 5;
  std::string minimalloc;
};

void define(CLI::App& app, Arguments& arguments) {
  app.add_option("files", arguments.files, "Files of buffers [those of data/layout]");
  app.add_option("--capacity", arguments.capacity, "Height to get within; 0: the lowest [0]");
  app.add_option("--alignment", arguments.alignment, "Of every offset [1]");
  app.add_option("--work", arguments.work, "At most, as pack() counts it [6e9]");
  app.add_option("--rounds", arguments.rounds, "Times; the fewest seconds count [5]");
  app.add_option("--minimalloc", arguments.minimalloc,
                 "MiniMalloc's program, to run on the same files within the capacity");
}

double cpu_seconds(int who) {
  rusage usage{};
  getrusage(who, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// The fewest CPU seconds of several rounds, of this process or of its finished children.
template <typename Work>
double fewest_seconds(int rounds, int who, Work work) {
  double fewest = INFINITY;
  for (int round = 0; round < rounds; ++round) {
    const double before = cpu_seconds(who);
    work();
    fewest = std::min(fewest, cpu_seconds(who) - before);
  }
  return fewest;
}

/// Nothing when it fails.
std::optional<double> minimalloc_seconds(const Arguments& arguments, const std::string& file) {
  if (arguments.minimalloc.empty() || arguments.capacity == 0) return std::nullopt;
  const std::string command =
      fmt::format("'{}' --capacity={} '--input={}' --output=/dev/null >/dev/null 2>&1",
                  arguments.minimalloc, arguments.capacity, file);
  bool succeeded = true;
  const double seconds = fewest_seconds(arguments.rounds, RUSAGE_CHILDREN, [&] {
    succeeded = std::system(command.c_str()) == 0 && succeeded;
  });
  return succeeded ? std::optional(seconds) : std::nullopt;
}

/// The totals over all files.
struct Totals {
  int files = 0, proven = 0, close = 0;
  double percent_above = 0;
  double log_ratio = 0;  ///< of MiniMalloc's seconds to ours
  int compared = 0;      ///< number of files for which both are known
};

double percent_above(const packing::SolvedPacking& solved) {
  const auto bound = static_cast<double>(std::max<Bytes>(solved.lower_bound, 1));
  return 100 * (static_cast<double>(solved.packing.height) / bound - 1);
}

void add(Totals& totals, const packing::SolvedPacking& solved) {
  ++totals.files;
  totals.proven += solved.proven();
  totals.close += percent_above(solved) <= kClose;
  totals.percent_above += percent_above(solved);
}

/// A row of the table.
void run(const Arguments& arguments, const std::string& file, Totals& totals) {
  const packing::BufferTable table = packing::read_buffers(file);
  packing::PackingGoal goal{.alignment = arguments.alignment, .work = arguments.work};
  if (arguments.capacity > 0) goal.capacity = arguments.capacity;
  packing::SolvedPacking solved;
  const double ours = fewest_seconds(arguments.rounds, RUSAGE_SELF, [&] {
    solved = packing::solve_packing(table.buffers, goal, Control());
  });
  const std::optional<double> theirs = minimalloc_seconds(arguments, file);
  fmt::print("| {} | {} | {} | {} | {:.3f} | {} | {:.4f} | {} | {} |\n",
             fs::path(file).stem().string(), table.buffers.size(), solved.packing.height,
             solved.lower_bound, percent_above(solved), solved.proven() ? "yes" : "no", ours,
             theirs ? fmt::format("{:.3f}", *theirs) : "-",
             theirs ? fmt::format("{:.0f}", *theirs / ours) : "-");
  std::fflush(stdout);
  add(totals, solved);
  if (!theirs) return;
  totals.log_ratio += std::log(*theirs / ours);
  ++totals.compared;
}

void print(const Totals& totals) {
  fmt::print("\nOf {} files {} are packed as low as proven possible, {} within {} %; what they "
             "are above their bounds sums up to {:.2f} %.\n",
             totals.files, totals.proven, totals.close, kClose, totals.percent_above);
  if (totals.compared > 0) {
    fmt::print("Geometric mean of the ratios: {:.0f} over {} files.\n",
               std::exp(totals.log_ratio / totals.compared), totals.compared);
  }
}

void run(Arguments arguments) {
  if (arguments.files.empty()) {
    for (const auto& entry : fs::directory_iterator(LOWTIDE_SOURCE_DIR "/data/layout")) {
      arguments.files.push_back(entry.path().string());
    }
    std::ranges::sort(arguments.files);
  }
  fmt::print("| file | buffers | height | bound | above % | proven | CPU s | MiniMalloc's | ratio "
             "|\n"
             "| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
  Totals totals;
  for (const std::string& file : arguments.files) run(arguments, file, totals);
  print(totals);
}

}  // namespace
}  // namespace lowtide::bench

int main(int argc, char** argv) {
  return bench_main(
      argc, argv, "layouts", "How fast and how low buffers are packed", lowtide::bench::define,
      [](const lowtide::bench::Arguments& arguments) { lowtide::bench::run(arguments); });
}
