#pragma once

#include <string>
#include <string_view>

namespace lowtide::testing {

/// What reading a text does, as the best of its three kinds.
struct Reading {
  bool accepted = false;  ///< as a graph, plan or profile
  std::string fault;      ///< what went wrong that may not; "" when nothing did
};

/// Reads a text as a graph, as a plan and as a profile. Each reader must refuse it with InputError
/// that names the source, or give something that the rest of the program can do with:
///
/// * a graph: keep-all is valid, the file survives a round trip, it can be priced, and strategies
///   within some budgets give a plan that the verifier accepts, or an outcome that says why not and
///   names a budget that does if it names one;
/// * a plan of one of valid_documents(): replay agrees with the verifier, which names a rule;
/// * a profile of one of them: the graph can be priced with it, or is refused.
///
/// Budgets and strategies are drawn from the text itself, so that a text always does the same.
Reading read_as_anything(std::string_view text);

}  // namespace lowtide::testing
