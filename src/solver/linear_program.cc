#include "solver/linear_program.h"

#include <algorithm>
#include <cmath>

namespace lowtide::solver {

int LinearProgram::add_column(double cost, double lower, double upper, bool integer) {
  this->cost.push_back(cost);
  this->lower.push_back(lower);
  this->upper.push_back(upper);
  this->integer.push_back(integer);
  return num_columns() - 1;
}

void LinearProgram::term(int column, double coefficient) {
  this->column.push_back(column);
  this->coefficient.push_back(coefficient);
}

void LinearProgram::end_row(double lower, double upper) {
  row_lower.push_back(lower);
  row_upper.push_back(upper);
  row_begin.push_back(static_cast<int>(column.size()));
}

double objective(const LinearProgram& program, std::span<const double> values) {
  double sum = program.offset;
  for (int j = 0; j < program.num_columns(); ++j) sum += program.cost[j] * values[j];
  return sum;
}

double largest_violation(const LinearProgram& program, std::span<const double> values) {
  double worst = 0;
  for (int j = 0; j < program.num_columns(); ++j) {
    worst = std::max({worst, program.lower[j] - values[j], values[j] - program.upper[j]});
  }
  for (int r = 0; r < program.num_rows(); ++r) {
    double sum = 0;
    for (int k = program.row_begin[r]; k < program.row_begin[r + 1]; ++k) {
      sum += program.coefficient[k] * values[program.column[k]];
    }
    worst = std::max({worst, program.row_lower[r] - sum, sum - program.row_upper[r]});
  }
  return worst;
}

double dual_bound(const LinearProgram& program, std::span<const double> row_duals) {
  double bound = program.offset;
  std::vector<double> reduced = program.cost;
  for (int r = 0; r < program.num_rows(); ++r) {
    const double side = row_duals[r] > 0 ? program.row_lower[r] : program.row_upper[r];
    if (row_duals[r] == 0 || !std::isfinite(side)) continue;  // a wrong sign proves nothing
    bound += row_duals[r] * side;
    for (int k = program.row_begin[r]; k < program.row_begin[r + 1]; ++k) {
      reduced[program.column[k]] -= row_duals[r] * program.coefficient[k];
    }
  }
  for (int j = 0; j < program.num_columns(); ++j) {
    bound += reduced[j] * (reduced[j] > 0 ? program.lower[j] : program.upper[j]);
  }
  return bound;
}

}  // namespace lowtide::solver
