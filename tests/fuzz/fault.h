#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace lowtide::testing {

/// A forbidden behaviour, in words.
class Fault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

inline void require(bool holds, std::string_view what) {
  if (!holds) throw Fault(std::string(what));
}

}  // namespace lowtide::testing
