#include "cli/failure.h"

#include <fmt/format.h>

#include <iostream>
#include <new>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "cli/command.h"
#include "cli/or_null.h"
#include "cli/output.h"
#include "planner/does_not_fit.h"

#ifdef LOWTIDE_RUNTIME
#include <c10/util/Exception.h>
#endif

namespace lowtide::cli {
namespace {

struct Failure {
  int exit;
  const char* status;
  std::string message;
  nlohmann::json more = nlohmann::json::object();
};

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

nlohmann::json known_budgets(const planner::DoesNotFit& e) {
  return {{"floor_bytes", e.floor_bytes},
          {"smallest_budget_bytes", or_null(e.smallest_budget_bytes)}};
}

Failure classify(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const planner::DoesNotFit& e) {
    return {kInfeasible, "infeasible", e.what(), known_budgets(e)};
  } catch (const InfeasibleError& e) {
    return {kInfeasible, "infeasible", e.what()};
  } catch (const InputError& e) {
    return {kBadInput, "bad_input", e.what()};
  } catch (const StoppedError& e) {
    return {kStopped, "stopped", e.what()};
  } catch (const Error& e) {
    return {kFailed, "failed", e.what()};
  } catch (const std::bad_alloc&) {
    return {kFailed, "failed", "this machine has not enough memory for that"};
#ifdef LOWTIDE_RUNTIME
  } catch (const c10::Error& e) {
    return {kFailed, "failed", "LibTorch: " + first_line(e.what_without_backtrace())};
#endif
  } catch (const std::exception& e) {
    return {kFailed, "failed", fmt::format("fault in lowtide itself: {}", first_line(e.what()))};
  }
}

}  // namespace

int report_failure(const std::exception_ptr& failure, bool json) {
  Failure f = classify(failure);
  std::cerr << "lowtide: " << f.message << '\n';
  if (json) {
    f.more["error"] = f.message;
    f.more["status"] = f.status;
    try {
      print_json(f.more);
    } catch (const Error&) {
      // The standard output itself may have failed; the standard error has the message.
    }
  }
  return f.exit;
}

}  // namespace lowtide::cli
