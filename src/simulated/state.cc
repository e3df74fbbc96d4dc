#include "simulated/state.h"

namespace lowtide::simulated {
namespace {

State* only_state = nullptr;

}  // namespace

bool is_installed() { return only_state != nullptr; }

State& state() { return *only_state; }

void make_state(Bytes bytes, bool late, std::uint64_t seed) {
  only_state = new State(bytes, late, seed);
}

}  // namespace lowtide::simulated
