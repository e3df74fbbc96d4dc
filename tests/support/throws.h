#pragma once

#include <gmock/gmock.h>

#include "base/error.h"

/// The statement throws InputError with a message that the matcher accepts.
#define EXPECT_THROWS_INPUT_ERROR(statement, matcher) \
  EXPECT_THAT([&] { statement; }, ::testing::ThrowsMessage<::lowtide::InputError>(matcher))
