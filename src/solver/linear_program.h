#pragma once

#include <span>
#include <vector>

namespace lowtide::solver {

/// A mixed-integer linear program: minimise offset + cost x over lower <= x <= upper with row_lower
/// <= A x <= row_upper; some x are integers. Rows are stored one after the other.
struct LinearProgram {
  double offset = 0;
  std::vector<double> cost, lower, upper;  ///< per column
  std::vector<char> integer;               ///< per column
  std::vector<double> row_lower, row_upper;
  std::vector<int> row_begin{0};  ///< into `column` and `coefficient`; one more than there are rows
  std::vector<int> column;
  std::vector<double> coefficient;

  int num_columns() const { return static_cast<int>(cost.size()); }
  int num_rows() const { return static_cast<int>(row_lower.size()); }

  /// Returns the column's index.
  int add_column(double cost, double lower, double upper, bool integer);
  /// Adds a term to the row that is being written; a column appears once in a row.
  void term(int column, double coefficient);
  void end_row(double lower, double upper);
};

double objective(const LinearProgram& program, std::span<const double> values);

/// The largest violation of any bound of a column or a row.
double largest_violation(const LinearProgram& program, std::span<const double> values);

/// A lower bound on the objective of the relaxation, and so of the program, for any multipliers of
/// the rows: each column sits at its better bound. The bound holds whatever solver the multipliers
/// come from. All columns must be bounded.
double dual_bound(const LinearProgram& program, std::span<const double> row_duals);

}  // namespace lowtide::solver
