#pragma once

#include <cstddef>
#include <cstdint>

/// Engines such as libFuzzer call this with a text. Aborts when reading it shows a fault
/// (graph_entry.cc, layout_entry.cc). The programs of fuzz_program.h call it without an engine.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
