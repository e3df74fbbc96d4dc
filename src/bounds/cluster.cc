#include "bounds/cluster.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "bounds/cost.h"

namespace lowtide::bounds {
namespace {

/// All subsets of `set`, the largest first.
template <class Visit>
void for_each_subset(unsigned set, const Visit& visit) {
  for (unsigned s = set;; s = (s - 1) & set) {
    visit(s);
    if (s == 0) return;
  }
}

}  // namespace

Cluster::Cluster(const remat::StageGraph& graph, std::span<const BoundOp> ops) {
  Program program;
  for (const BoundOp& op : ops) {
    values_.insert(values_.end(), op.outputs.begin(), op.outputs.end());
  }
  for (int v : values_) program.bytes.push_back(static_cast<double>(graph.value(v).bytes));
  for (const BoundOp& op : ops) {
    program.runs.push_back({subset(op.inputs), subset(op.outputs), 0, op.cost});
  }
  int before = kNone;
  for (int stage : touching_stages(graph, ops)) {
    if (before != kNone) add_gap(graph, before, stage, program);
    add_first_run(graph, stage, program);
    before = stage;
  }
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const auto late = [&](const Span& span) { return span.begin > ops[i].deadline; };
    const auto end = std::ranges::find_if(spans_, late);
    program.runs[i].spans = static_cast<int>(end - spans_.begin());
  }
  program.steps.shrink_to_fit();
  spans_.shrink_to_fit();
  program_ = std::make_shared<const Program>(std::move(program));
}

/// Stages that make or read a value of the cluster, and those after which one of its ops may not
/// run again.
std::vector<int> Cluster::touching_stages(const remat::StageGraph& graph,
                                          std::span<const BoundOp> ops) const {
  std::vector<int> touching;
  int last = 0;
  for (int v : values_) {
    const remat::StageValue& value = graph.value(v);
    touching.push_back(value.producer);
    touching.insert(touching.end(), value.readers.begin(), value.readers.end());
    last = std::max(last, value.last_reader());
  }
  for (const BoundOp& op : ops) {
    if (op.deadline > op.stage && op.deadline < last) touching.push_back(op.deadline);
  }
  std::ranges::sort(touching);
  const auto repeated = std::ranges::unique(touching);
  touching.erase(repeated.begin(), repeated.end());
  return touching;
}

Cluster::Values Cluster::subset(std::span<const int> values) const {
  Values result = 0;
  for (std::size_t bit = 0; bit < values_.size(); ++bit) {
    if (std::ranges::find(values, values_[bit]) != values.end()) result |= Values(1u << bit);
  }
  return result;
}

/// The values that the stage's first run reads.
Cluster::Values Cluster::read_by(const remat::StageGraph& graph, int stage) const {
  Values result = 0;
  for (std::size_t bit = 0; bit < values_.size(); ++bit) {
    const std::vector<int>& readers = graph.value(values_[bit]).readers;
    if (std::ranges::binary_search(readers, stage)) result |= Values(1u << bit);
  }
  return result;
}

/// The values that later first runs read, and those that reruns of their ops need.
Cluster::Values Cluster::useful_after(const remat::StageGraph& graph, int stage,
                                      const Program& program) const {
  Values useful = 0;
  for (std::size_t bit = 0; bit < values_.size(); ++bit) {
    if (graph.value(values_[bit]).last_reader() > stage) useful |= Values(1u << bit);
  }
  for (auto run = program.runs.rbegin(); run != program.runs.rend(); ++run) {
    if (run->out & useful) useful |= run->in;
  }
  return useful;
}

int Cluster::add_span(int begin, int end) {
  spans_.push_back({begin, end});
  return static_cast<int>(spans_.size()) - 1;
}

/// Between the first runs of two neighbouring touching stages: outputs of reruns right after the
/// first are held, those of reruns right before the second are not.
void Cluster::add_gap(const remat::StageGraph& graph, int before, int after, Program& program) {
  const auto useless = static_cast<Values>(~useful_after(graph, before, program));
  program.steps.push_back({Kind::close, useless});
  if (before + 1 == after) return;
  const int span = add_span(before + 1, after);
  program.steps.push_back({Kind::choose, 0, span});
  program.steps.push_back({Kind::pay, 0, span});
}

void Cluster::add_first_run(const remat::StageGraph& graph, int stage, Program& program) {
  const Values in = read_by(graph, stage);
  const Values out = subset(graph.stage(stage).outputs);
  const auto given = static_cast<Values>(in | out);
  const int span = add_span(stage, stage + 1);
  program.steps.push_back({Kind::choose, given, span});
  if (in != 0) program.steps.push_back({Kind::need, in});
  if (out != 0) program.steps.push_back({Kind::make, out});
  program.steps.push_back({Kind::pay, given, span});
}

double Cluster::Program::solve(std::span<const double> prices, SubsetTable& table) const {
  table.reset(bytes);
  bool after_price = false;
  // After a stage without a price, a rerun could as well have come earlier. Before a stage without
  // a price, a drop can wait.
  const auto choose = [&](const Step& step, double price) {
    if (after_price) {
      for (const Run& run : runs) {
        if (step.span < run.spans) table.run(run.in, run.out, run.cost);
      }
    }
    if (price > 0) table.drop(static_cast<Values>(~step.values));
  };
  for (const Step& step : steps) {
    const double price = prices[static_cast<std::size_t>(step.span)];
    switch (step.kind) {
      case Kind::make: table.make(step.values); break;
      case Kind::need: table.need(step.values); break;
      case Kind::choose: choose(step, price); break;
      case Kind::pay:
        table.pay(step.values, price, step.span, step.span + 1);
        after_price = price > 0;
        break;
      case Kind::close: table.close(step.values); break;
    }
  }
  return table.least();
}

std::vector<double> Cluster::span_prices(const remat::Prices& prices) const {
  std::vector<double> result;
  result.reserve(spans_.size());
  for (const Span& span : spans_) result.push_back(prices.over(span.begin, span.end));
  return result;
}

double Cluster::solve(const remat::Prices& prices, SubsetTable& table,
                      std::vector<Hold>& holds) const {
  const double least = program_->solve(span_prices(prices), table);
  table.trace([&](int index, int span, int, bool is_given) {
    const auto [begin, end] = spans_[static_cast<std::size_t>(span)];
    holds.push_back({values_[static_cast<std::size_t>(index)], begin, end, is_given});
  });
  return least;
}

/// Per step: values that are made before it and not closed.
std::vector<Cluster::Values> Cluster::open_before_steps() const {
  std::vector<Values> result;
  Values open = 0;
  for (const Step& step : program_->steps) {
    result.push_back(open);
    if (step.kind == Kind::make) open |= step.values;
    if (step.kind == Kind::close) open &= static_cast<Values>(~step.values);
  }
  return result;
}

/// Turns the least costs after a step into those before it, for the subsets of open values.
void Cluster::take_back(const Step& step, Values open, double price,
                        std::vector<double>& least) const {
  switch (step.kind) {
    case Kind::make:
      for_each_subset(open, [&](unsigned s) { least[s] = least[s | step.values]; });
      break;
    case Kind::need:
      for_each_subset(open, [&](unsigned s) {
        if ((s & step.values) != step.values) least[s] = kNever;
      });
      break;
    case Kind::choose: choose_back(step, open, least); break;
    case Kind::pay: pay_back(open, step.values, price, least); break;
    case Kind::close:
      for_each_subset(open, [&](unsigned s) { least[s] = least[s & ~unsigned{step.values}]; });
      break;
  }
}

void Cluster::choose_back(const Step& step, Values open, std::vector<double>& least) const {
  for (unsigned left = open & ~unsigned{step.values}; left != 0; left &= left - 1) {
    const unsigned value = left & -left;
    for_each_subset(open & ~value,
                    [&](unsigned s) { least[s | value] = std::min(least[s | value], least[s]); });
  }
  for (auto run = program_->runs.rbegin(); run != program_->runs.rend(); ++run) {
    const unsigned out = run->out & open;
    if (out == 0 || (run->in & ~open) != 0 || step.span >= run->spans) continue;
    for_each_subset(open & ~unsigned{run->in}, [&](unsigned rest) {
      const unsigned s = rest | run->in;
      least[s] = std::min(least[s], least[s | out] + run->cost);
    });
  }
}

void Cluster::pay_back(Values open, Values given, double price, std::vector<double>& least) const {
  for_each_subset(open, [&](unsigned s) {
    for (unsigned left = s & ~unsigned{given}; left != 0; left &= left - 1) {
      least[s] += price * program_->bytes[static_cast<std::size_t>(std::countr_zero(left))];
    }
  });
}

std::vector<Cluster::Completion> Cluster::completions(const remat::Prices& prices,
                                                      int num_stages) const {
  std::vector<Completion> result(static_cast<std::size_t>(num_stages), {0, {0}});
  const std::vector<Values> open = open_before_steps();
  std::vector<double> least(std::size_t{1} << values_.size());
  for (std::size_t k = program_->steps.size(); k-- > 0;) {
    const Step& step = program_->steps[k];
    const Span& span = spans_[static_cast<std::size_t>(step.span)];
    take_back(step, open[k], prices.over(span.begin, span.end), least);
    if (step.kind != Kind::choose) continue;
    result[static_cast<std::size_t>(span.begin)] = {open[k], least};
    // Inside a gap the choices are as at its begin, and the payment starts there.
    for (int t = span.begin + 1; t < span.end; ++t) {
      std::vector<double> from_here = result[static_cast<std::size_t>(span.end)].least;
      pay_back(open[k], 0, prices.over(t, span.end), from_here);
      choose_back(step, open[k], from_here);
      result[static_cast<std::size_t>(t)] = {open[k], std::move(from_here)};
    }
  }
  std::fill_n(result.begin(), spans_.front().begin + 1, Completion{0, {least[0]}});
  return result;
}

}  // namespace lowtide::bounds
