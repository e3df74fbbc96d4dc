#pragma once

#include <gtest/gtest.h>

#include <string>

#include "certify/check.h"

namespace lowtide::testing {

/// Fails with the reason when the certificate is refused.
template <typename Verdict>
::testing::AssertionResult is_accepted(const std::variant<Verdict, Refused>& verdict) {
  const Refused* refused = std::get_if<Refused>(&verdict);
  if (refused == nullptr) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << name(refused->flaw) << ": " << refused->message;
}

template <typename Verdict>
::testing::AssertionResult is_refused_for(const std::variant<Verdict, Refused>& verdict,
                                          Flaw flaw) {
  const Refused* refused = std::get_if<Refused>(&verdict);
  if (refused == nullptr) return ::testing::AssertionFailure() << "accepted";
  if (refused->flaw == flaw) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << name(refused->flaw) << ": " << refused->message;
}

}  // namespace lowtide::testing
