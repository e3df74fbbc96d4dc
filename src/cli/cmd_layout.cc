#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/control.h"
#include "base/error.h"
#include "base/file.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/output.h"
#include "layout/csv.h"
#include "layout/solve.h"

namespace lowtide::cli {
namespace {

struct Arguments {
  std::string buffers, capacity, output;
  Bytes alignment = 1;
  double seconds = 10;
  bool json = false;
};

/// Until time is over, whatever work that takes.
constexpr std::int64_t kUnlimitedWork = std::int64_t{1} << 60;

std::optional<Bytes> capacity_of(const Arguments& arguments) {
  if (arguments.capacity.empty()) return std::nullopt;
  return parse_amount(arguments.capacity, "--capacity");
}

void require_fit(const SolvedPacking& solved, std::optional<Bytes> capacity) {
  if (!capacity || solved.packing.height <= *capacity) return;
  if (solved.lower_bound > *capacity) {
    throw InfeasibleError(fmt::format(
        "no packing fits within {} bytes: every one needs at least {}. The lowest found needs {}.",
        *capacity, solved.lower_bound, solved.packing.height));
  }
  throw InfeasibleError(fmt::format(
      "no packing within {} bytes was found in time, and none was ruled out: the lowest found "
      "needs {}, any needs at least {}. Allow more by --time-limit or --capacity.",
      *capacity, solved.packing.height, solved.lower_bound));
}

void report(const SolvedPacking& solved, std::size_t count, bool json) {
  if (json) {
    print_json({{"status", solved.proven() ? "optimal" : "feasible"},
                {"buffers", count},
                {"height", solved.packing.height},
                {"lower_bound", solved.lower_bound},
                {"proven", solved.proven()}});
  } else {
    print(fmt::format("{} buffers: height {}, lower bound {}, {}\n", count, solved.packing.height,
                      solved.lower_bound,
                      solved.proven() ? "proven the lowest" : "not proven the lowest"));
  }
}

int layout_file(const Arguments& arguments) {
  const BufferTable table = read_buffers(arguments.buffers);
  const std::optional<Bytes> capacity = capacity_of(arguments);
  const Control control(arguments.seconds);
  const SolvedPacking solved =
      solve_packing(table.buffers, {arguments.alignment, capacity, kUnlimitedWork}, control);
  require_fit(solved, capacity);
  if (!arguments.output.empty()) write_file(arguments.output, to_csv(table, solved.packing));
  if (arguments.output != "/dev/stdout") report(solved, table.buffers.size(), arguments.json);
  return Control::stop_requested() ? kStopped : kSuccess;
}

}  // namespace

Action define_layout(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  app.add_option("buffers", arguments->buffers, "Buffers with sizes and lives")
      ->required()
      ->type_name("FILE.csv");
  app.add_option("--capacity", arguments->capacity, "Height to get within [the lowest possible]")
      ->type_name("AMOUNT");
  app.add_option("--alignment", arguments->alignment, "Of every offset, a power of two [1]")
      ->check(in_range(1, kLargest))
      ->type_name("BYTES");
  app.add_option("--time-limit", arguments->seconds, "Seconds at most; 0: no limit [10]")
      ->check(in_range(0, kLargest))
      ->type_name("SECONDS");
  app.add_option("-o,--output", arguments->output, "File to write, with offsets")
      ->type_name("OUT.csv");
  add_json_flag(app, arguments->json);
  add_help(app,
           "Gives every buffer an offset so that no two that are alive together overlap, and the\n"
           "highest end is as low as possible. Reads the CSV of MiniMalloc: id,lower,upper,size\n"
           "and, where there are, alignment and offset, where the buffer must lie.",
           "  lowtide layout buffers.csv -o placed.csv\n"
           "  lowtide layout buffers.csv --capacity 1MiB\n");
  return [arguments] { return layout_file(*arguments); };
}

}  // namespace lowtide::cli
