#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "builder/builder.h"

namespace lowtide::slices {

/// Where the rows of the batch lie in a tensor: along `dim`, each `unit` elements, one row after
/// the other.
struct Rows {
  std::int64_t dim = 0;
  std::int64_t unit = 1;

  /// The same in another dimension.
  Rows at(std::int64_t other) const { return {other, unit}; }
  bool operator==(const Rows&) const = default;
};

/// What a slice reads or makes of a tensor.
struct Part {
  enum class Kind : std::uint8_t {
    whole,
    rows,
    total,      ///< a part of a sum over all slices
    unfinished  ///< a part of a sum of which the op's result is yet to be made
  };
  Kind kind = Kind::whole;
  Rows rows = {};

  bool operator==(const Part&) const = default;
};

inline constexpr Part kWhole{};
inline constexpr Part kTotal{Part::Kind::total};
inline constexpr Part kUnfinished{Part::Kind::unfinished};
inline Part part_of(Rows rows) { return {Part::Kind::rows, rows}; }

/// A slice of an op that is about to run: the op's arguments, of which tensors are those of the
/// slice, and the rows of the slice.
struct SliceCall {
  Builder& builder;
  const Op& op;
  std::vector<CallArg> args;
  std::int64_t rows;

  std::vector<Value> run() const { return builder.call(op.type, args); }
  Value tensor(std::size_t i) const { return std::get<Value>(args.at(i)); }
};

/// One op in slices.
struct Cut {
  std::vector<Part> reads;  ///< by position among the inputs
  std::vector<Part> made;   ///< by output
  /// What a slice computes, if that is not the op itself.
  std::function<std::vector<Value>(SliceCall call)> call = {};
  /// The sum `before` and the part of a slice, of an op with one output, without that part in
  /// memory.
  std::function<Value(const SliceCall& call, Value before)> add_to = {};
  /// The results of the whole op from those of the slices, added up, where these are unfinished.
  std::function<std::vector<Value>(const std::vector<Value>& totals)> finish = {};
  /// False: the op mixes rows, and runs as a whole though its results have rows.
  bool in_slices = true;
};

}  // namespace lowtide::slices
