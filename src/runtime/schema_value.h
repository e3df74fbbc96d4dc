#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include "graph/argument.h"

namespace lowtide::runtime {

/// Converts an argument that is not a tensor to the type `expected` of the schema.
/// Converts numbers if needed (an integer to a float or a Scalar, a number to a list of
/// fixed length or a tensor, integers to a mask of booleans). None becomes None or, if
/// the schema does not allow it, the default. Throws InputError that names the expected
/// type.
c10::IValue schema_value(const Argument& argument, const c10::Argument& expected);

/// Whether the schema takes a list of tensors (with or without holes) there.
bool takes_tensor_list(const c10::Argument& expected);
/// Whether the list may have holes: `Tensor?[]`.
bool takes_optional_tensors(const c10::Argument& expected);
/// Whether the schema takes one tensor there, optional or not.
bool takes_tensor(const c10::Argument& expected);
/// Whether the schema takes a device there, optional or not.
bool takes_device(const c10::Argument& expected);
/// Whether None may be passed.
bool takes_none(const c10::Argument& expected);

}  // namespace lowtide::runtime
