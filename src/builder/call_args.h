#pragma once

#include <functional>
#include <vector>

#include "builder/builder.h"

namespace lowtide {

/// An op's arguments for Builder::call(), with the values that `read` gives for the positions of
/// its inputs. Throws InputError for a complex number, which a builder does not have.
std::vector<CallArg> call_args(const Op& op, const std::function<Value(int position)>& read);

/// What is before the last dot of an op's name: the scope that it was built in. "" for none.
std::string scope_of(const Op& op);

}  // namespace lowtide
