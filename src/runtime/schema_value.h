#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include "graph/argument.h"

namespace lowtide::runtime {

/// The value that a kernel expects where its schema says `expected`, made from an argument that is
/// not a tensor. Numbers become what the schema wants (an integer given for a float or a Scalar, a
/// number for a list of fixed length or for a tensor, integers for a mask of booleans); None
/// becomes None or, where the schema does not allow it, the default. Throws InputError that says
/// what was expected.
c10::IValue schema_value(const Argument& argument, const c10::Argument& expected);

/// Whether the schema takes a list of tensors (with or without holes) there.
bool takes_tensor_list(const c10::Argument& expected);
/// Whether the list may have holes: `Tensor?[]`.
bool takes_optional_tensors(const c10::Argument& expected);
/// Whether the schema takes one tensor there, optional or not.
bool takes_tensor(const c10::Argument& expected);
/// Whether None may be passed.
bool takes_none(const c10::Argument& expected);

}  // namespace lowtide::runtime
