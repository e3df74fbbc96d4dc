#pragma once

#include <stdexcept>
#include <string>

namespace lowtide {

/// A fault that the user can mend. what() says what is wrong, where, and what to do about it.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A file, an option or a value that the user gave is wrong.
class InputError : public Error {
 public:
  using Error::Error;
};

/// Nothing fits: no plan exists (or none was found) within the budget, or no packing within the
/// capacity. what() names the smallest known.
class InfeasibleError : public Error {
 public:
  using Error::Error;
};

/// The user asked to stop (Ctrl-C) before a result existed.
class StoppedError : public Error {
 public:
  using Error::Error;
};

}  // namespace lowtide
