#pragma once

#include <functional>
#include <map>

#include "builder/builder.h"

namespace lowtide {

/// By tensor: the value that is read instead of it.
using Replacements = std::map<TensorId, Value>;

/// Appends the ops from `begin` up to, but not including, `end` again, in their phases and their
/// order, under their names after `prefix` and a dot. Where an op reads a tensor of `replaced`, or
/// a result of an op that is repeated, the new op reads the new value. An op whose results are all
/// replaced is left out. `made` is called with each result and the new value, right after its op;
/// it may append ops. Returns the replacements with the new results. Throws as Builder::call().
Replacements repeat(Builder& builder, OpId begin, OpId end, Replacements replaced,
                    const std::string& prefix,
                    const std::function<void(TensorId original, Value again)>& made);

}  // namespace lowtide
