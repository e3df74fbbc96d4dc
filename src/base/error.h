#pragma once

#include <stdexcept>
#include <string>

namespace lowtide {

/// An error that the user can correct. what() names the error, its place and the remedy.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A file, an option or a value that the user gave is wrong.
class InputError : public Error {
 public:
  using Error::Error;
};

/// No plan exists (or none was found) within the budget, or no packing within the capacity. what()
/// names the smallest known amount that works.
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
