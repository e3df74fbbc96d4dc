#pragma once

#include <gtest/gtest.h>

#include <string>

#include "certify/check.h"

namespace lowtide::testing {

/// Fails with the reason when the certificate is refused.
template <typename Verdict>
::testing::AssertionResult is_accepted(const std::variant<Verdict, certify::Refused>& verdict) {
  const certify::Refused* refused = std::get_if<certify::Refused>(&verdict);
  if (refused == nullptr) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << certify::name(refused->flaw) << ": " << refused->message;
}

template <typename Verdict>
::testing::AssertionResult is_refused_for(const std::variant<Verdict, certify::Refused>& verdict,
                                          certify::Flaw flaw) {
  const certify::Refused* refused = std::get_if<certify::Refused>(&verdict);
  if (refused == nullptr) return ::testing::AssertionFailure() << "accepted";
  if (refused->flaw == flaw) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << certify::name(refused->flaw) << ": " << refused->message;
}

}  // namespace lowtide::testing
