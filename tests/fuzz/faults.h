#pragma once

#include <string>
#include <string_view>

namespace lowtide::testing {

/// The result of reading a text as each of three kinds; the best of them.
struct Reading {
  bool accepted = false;  ///< as a graph, plan or profile
  std::string fault;      ///< the forbidden behaviour; "" for none
};

/// Reads a text as a graph, as a plan and as a profile. Each reader must refuse it with InputError
/// that names the source, or return a result that the rest of the program can use:
///
/// * a graph: keep-all is valid, the file survives a round trip, it can be priced, and strategies
/// within some budgets give a plan that the verifier accepts, or a reason why not; if the reason
/// names a budget, that budget suffices;
/// * a plan of one of valid_documents(): replay agrees with the verifier, which names a rule;
/// * a profile of one of them: the graph can be priced with it, or is refused.
///
/// Budgets and strategies are drawn from the text itself: the same text has the same effect.
Reading read_as_anything(std::string_view text);

}  // namespace lowtide::testing
