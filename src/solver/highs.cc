#include "solver/highs.h"

#include <fmt/format.h>

// The C interface: the C++ one passes std::string, whose layout depends on how the library was
// built.
#include <interfaces/highs_c_api.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <mutex>
#include <utility>

#include "base/error.h"

namespace lowtide::solver {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Tolerance of rows and integers; the default is coarser. A finer one costs time, and plans are
/// replayed in any case.
constexpr double kTolerance = 1e-7;

/// Of the simplex method, with the other work of a solve divided among its iterations. They take
/// from a third of this to four times as much, and hardly more in large programs than in small
/// ones, as each changes few rows.
double iteration_nanoseconds(std::int64_t rows) { return 200e3 + 2 * static_cast<double>(rows); }

void require(HighsInt status, std::string_view what) {
  if (status == kHighsStatusError) {
    throw Error(fmt::format("HiGHS failed to {}; try another strategy, such as search.", what));
  }
}

class Solve {
 public:
  Solve(const LinearProgram& program, const SolverRequest& request, const Control& control)
      : program_(program), request_(request), control_(control), highs_(Highs_create()) {
    set_options();
    pass_program();
    if (!request.start.empty() && !request.relaxed) {
      require(Highs_setSolution(highs_.get(), request.start.data(), nullptr, nullptr, nullptr),
              "take a first solution");
    }
    listen();
  }

  Solved run() {
    require(Highs_run(highs_.get()), "solve the program");
    Solved solved;
    const HighsInt status = Highs_getModelStatus(highs_.get());
    if (status == kHighsModelStatusOptimal) solved.status = Solved::Status::optimal;
    // With bounded columns nothing is unbounded.
    if (status == kHighsModelStatusInfeasible || status == kHighsModelStatusUnboundedOrInfeasible) {
      solved.status = Solved::Status::infeasible;
    }
    solved.bound = bound(solved.status);
    take_solution(solved);
    return solved;
  }

 private:
  struct Destroy {
    void operator()(void* highs) const { Highs_destroy(highs); }
  };

  void set_options() {
    void* const highs = highs_.get();
    Highs_resetGlobalScheduler(1);  // else HiGHS refuses another number of threads than before
    bool ok = Highs_setBoolOptionValue(highs, "output_flag", 0) != kHighsStatusError;
    const auto number = [&](const char* option, double value) {
      ok = ok && Highs_setDoubleOptionValue(highs, option, value) != kHighsStatusError;
    };
    const auto count = [&](const char* option, std::int64_t value) {
      const auto most = std::min<std::int64_t>(value, std::numeric_limits<HighsInt>::max());
      ok = ok &&
           Highs_setIntOptionValue(highs, option, static_cast<HighsInt>(most)) != kHighsStatusError;
    };
    count("threads", request_.threads);
    number("mip_rel_gap", request_.gap);
    number("mip_feasibility_tolerance", kTolerance);
    number("primal_feasibility_tolerance", kTolerance);
    if (request_.most_nodes >= 0) count("mip_max_nodes", request_.most_nodes);
    number("time_limit", std::max(0.0, control_.clock_left_seconds()));
    if (!ok) {
      throw Error("HiGHS refuses its options: is it the version of scripts/requirements.txt?");
    }
  }

  void pass_program() {
    const LinearProgram& p = program_;
    const std::vector<HighsInt> integer(p.integer.begin(), p.integer.end());
    require(Highs_passModel(
                highs_.get(), p.num_columns(), p.num_rows(), static_cast<HighsInt>(p.column.size()),
                0, kHighsMatrixFormatRowwise, kHighsHessianFormatTriangular, kHighsObjSenseMinimize,
                p.offset, p.cost.data(), p.lower.data(), p.upper.data(), p.row_lower.data(),
                p.row_upper.data(), p.row_begin.data(), p.column.data(), p.coefficient.data(),
                nullptr, nullptr, nullptr, request_.relaxed ? nullptr : integer.data()),
            "take the program");
  }

  void listen() {
    Highs_setCallback(highs_.get(), &Solve::on_event, this);
    for (const HighsInt event : {kHighsCallbackSimplexInterrupt, kHighsCallbackIpmInterrupt,
                                 kHighsCallbackMipInterrupt, kHighsCallbackMipImprovingSolution}) {
      require(Highs_startCallback(highs_.get(), event), "report what it does");
    }
  }

  static void on_event(int event, const char*, const HighsCallbackDataOut* out,
                       HighsCallbackDataIn* in, void* self) {
    static_cast<Solve*>(self)->hear(event, *out, in);
  }

  void hear(HighsInt event, const HighsCallbackDataOut& out, HighsCallbackDataIn* in) {
    if (event == kHighsCallbackMipImprovingSolution) {
      const std::span values(out.mip_solution, static_cast<std::size_t>(program_.num_columns()));
      if (request_.on_solution) request_.on_solution(values);
      return;
    }
    // HiGHS sets only the fields that belong to the event.
    if (event == kHighsCallbackSimplexInterrupt && request_.relaxed) {
      count(out.simplex_iteration_count);
    } else if (event == kHighsCallbackMipInterrupt) {
      count(out.mip_total_lp_iterations);
    }
    if (in != nullptr) in->user_interrupt = control_.should_stop();
    if (event == kHighsCallbackMipInterrupt && request_.on_progress) {
      request_.on_progress(out.mip_dual_bound, out.mip_primal_bound);
    }
  }

  /// Of the simplex method so far.
  void count(std::int64_t iterations) {
    const auto more = static_cast<double>(iterations - std::exchange(counted_, iterations));
    control_.count(iteration_nanoseconds(program_.num_rows()) * std::max(0.0, more));
  }

  double info(const char* name) const {
    double value = -kInfinity;
    Highs_getDoubleInfoValue(highs_.get(), name, &value);
    return value;
  }

  double bound(Solved::Status status) const {
    if (status == Solved::Status::infeasible) return kInfinity;
    if (!request_.relaxed) return info("mip_dual_bound");
    return status == Solved::Status::optimal ? info("objective_function_value") : -kInfinity;
  }

  void take_solution(Solved& solved) {
    HighsInt primal = kHighsSolutionStatusNone;
    HighsInt dual = kHighsSolutionStatusNone;
    Highs_getIntInfoValue(highs_.get(), "primal_solution_status", &primal);
    Highs_getIntInfoValue(highs_.get(), "dual_solution_status", &dual);
    std::vector<double> values(program_.num_columns());
    std::vector<double> reduced(program_.num_columns());
    std::vector<double> activity(program_.num_rows());
    std::vector<double> duals(program_.num_rows());
    Highs_getSolution(highs_.get(), values.data(), reduced.data(), activity.data(), duals.data());
    if (primal == kHighsSolutionStatusFeasible) solved.values = std::move(values);
    if (dual != kHighsSolutionStatusNone) solved.row_duals = std::move(duals);
  }

  const LinearProgram& program_;
  const SolverRequest& request_;
  const Control& control_;
  std::int64_t counted_ = 0;
  std::unique_ptr<void, Destroy> highs_;
};

}  // namespace

double relaxation_seconds(std::int64_t rows) {
  constexpr double kIterations = 0.12;  // for each row: 0.1 to 0.25 in Checkmate's programs
  return 1e-9 * kIterations * static_cast<double>(rows) * iteration_nanoseconds(rows);
}

Solved solve_with_highs(const LinearProgram& program, const SolverRequest& request,
                        const Control& control) {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  return Solve(program, request, control).run();
}

}  // namespace lowtide::solver
