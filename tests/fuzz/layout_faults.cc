#include "fuzz/layout_faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>

#include "base/error.h"
#include "fuzz/fault.h"
#include "packing/csv.h"
#include "packing/packing_check.h"
#include "packing/solve.h"

namespace lowtide::testing {
namespace {

constexpr std::string_view kTableSource = "fuzzed";
constexpr std::size_t kMostBuffers = 40;  // of a table that is packed
constexpr std::size_t kEnumerated = 5;
constexpr Bytes kSmall = 64;              // every offset below sums of such bytes is tried
constexpr std::int64_t kWork = 1'000'000;

/// Buffers and the goal of their packing.
struct Problem {
  std::vector<packing::Buffer> buffers;
  packing::PackingGoal goal{.alignment = 1, .work = kWork};
};

/// Reads numbers from bytes; zeros after the end.
class Source {
 public:
  explicit Source(std::string_view bytes) : bytes_(bytes) {}
  bool is_over() const { return bytes_.empty(); }
  int below(int n) {
    if (bytes_.empty()) return 0;
    const int value = static_cast<unsigned char>(bytes_.front());
    bytes_.remove_prefix(1);
    return value % n;
  }

 private:
  std::string_view bytes_;
};

Problem problem_of_bytes(std::string_view bytes) {
  Source source(bytes);
  Problem problem;
  problem.goal.alignment = Bytes{1} << source.below(4);
  const int capacity = source.below(128);
  if (capacity >= 32) problem.goal.capacity = capacity;
  while (!source.is_over() && problem.buffers.size() < kMostBuffers) {
    packing::Buffer buffer;
    buffer.begin = source.below(12);
    buffer.end = buffer.begin + source.below(7);
    buffer.bytes = source.below(24);
    buffer.alignment = Bytes{1} << std::max(0, source.below(12) - 8);
    const int fixed = source.below(200);
    if (fixed < 40) buffer.fixed = fixed;
    problem.buffers.push_back(buffer);
  }
  return problem;
}

// ---- The plainest answers -----------------------------------------------------------------------

/// Buffers as packings see them: sizes and offsets in whole units of alignment; buffers that are
/// never alive need no memory.
std::vector<packing::Buffer> aligned(std::vector<packing::Buffer> buffers, Bytes alignment) {
  for (packing::Buffer& buffer : buffers) {
    buffer.bytes = packing::takes_room(buffer) ? align_up(buffer.bytes, alignment) : 0;
    buffer.alignment = std::max(buffer.alignment, alignment);
  }
  return buffers;
}

bool contradicts_itself(const std::vector<packing::Buffer>& buffers) {
  for (const packing::Buffer& a : buffers) {
    if (a.fixed && *a.fixed % a.alignment != 0) return true;
    for (const packing::Buffer& b : buffers) {
      if (&a == &b || !a.fixed || !b.fixed || !alive_together(a, b)) continue;
      if (*a.fixed < *b.fixed + b.bytes && *b.fixed < *a.fixed + a.bytes) return true;
    }
  }
  return false;
}

/// The lowest height of all packings, if they are few enough.
std::optional<Bytes> enumerated_height(const std::vector<packing::Buffer>& buffers) {
  std::vector<packing::Buffer> placed;
  std::ranges::copy_if(buffers, std::back_inserter(placed), packing::takes_room);
  const bool small = std::ranges::all_of(placed, [](const packing::Buffer& buffer) {
    return std::max({buffer.bytes, buffer.alignment, buffer.fixed.value_or(0)}) <= kSmall;
  });
  if (placed.size() > kEnumerated || !small) return std::nullopt;
  return optimal_height(placed);
}

// ---- What is asked ------------------------------------------------------------------------------

void check_packing(const Problem& problem, const packing::SolvedPacking& solved) {
  const std::vector<packing::Buffer> buffers = aligned(problem.buffers, problem.goal.alignment);
  const auto holds = is_packing(buffers, solved.packing, 1);
  require(static_cast<bool>(holds), fmt::format("no packing: {}", holds.message()));
  require(solved.lower_bound <= solved.packing.height, "a bound above the height");
  const std::optional<Bytes> lowest = enumerated_height(buffers);
  if (!lowest) return;
  require(solved.packing.height >= *lowest, "lower than every packing");
  require(solved.lower_bound <= *lowest, "a bound above the lowest packing");
  const auto& capacity = problem.goal.capacity;
  const bool fits = capacity && solved.packing.height <= *capacity;
  const bool is_refuted = capacity && solved.lower_bound > *capacity;
  require(fits || is_refuted || solved.packing.height == *lowest,
          fmt::format("{} for few buffers that need {}", solved.packing.height, *lowest));
}

void pack_or_refuse(const Problem& problem) {
  const bool contradicts = contradicts_itself(aligned(problem.buffers, problem.goal.alignment));
  packing::SolvedPacking solved;
  try {
    solved = packing::solve_packing(problem.buffers, problem.goal, Control());
  } catch (const InputError& error) {
    return require(contradicts, fmt::format("refused: {}", error.what()));
  }
  require(!contradicts, "offsets that contradict each other were not refused");
  check_packing(problem, solved);
}

bool is_same(const packing::Buffer& a, const packing::Buffer& b) {
  return a.begin == b.begin && a.end == b.end && a.bytes == b.bytes && a.alignment == b.alignment;
}

void check_round_trip(const packing::BufferTable& table) {
  packing::Packing packing{{}, 0};
  for (const packing::Buffer& buffer : table.buffers)
    packing.offsets.push_back(buffer.fixed.value_or(0));
  const packing::BufferTable again = packing::parse_buffers(packing::to_csv(table, packing));
  require(again.ids == table.ids && again.ties == table.ties,
          "names that change when written and read");
  for (std::size_t i = 0; i < table.buffers.size(); ++i) {
    require(is_same(again.buffers[i], table.buffers[i]) &&
                again.buffers[i].fixed == packing.offsets[i],
            "a buffer that changes when written and read");
  }
}

bool read_table(std::string_view text) {
  packing::BufferTable table;
  try {
    table = packing::parse_buffers(text, kTableSource);
  } catch (const InputError& error) {
    require(std::string_view(error.what()).starts_with(kTableSource),
            "a refusal without its source");
    return false;
  }
  check_round_trip(table);
  Problem problem;
  problem.buffers = table.buffers;
  if (table.buffers.size() <= kMostBuffers) pack_or_refuse(problem);
  return true;
}

}  // namespace

Reading read_as_layout(std::string_view text) {
  try {
    const bool accepted = read_table(text);
    pack_or_refuse(problem_of_bytes(text));
    return {accepted, ""};
  } catch (const Fault& fault) {
    return {false, fault.what()};
  } catch (const std::exception& error) {
    return {false, fmt::format("threw what it may not: {}", error.what())};
  }
}

}  // namespace lowtide::testing
