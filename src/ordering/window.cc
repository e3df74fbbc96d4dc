#include "ordering/window.h"

#include <algorithm>
#include <queue>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace lowtide::ordering {
namespace {

/// Stages of a window, numbered from 0 in their order, and values that may die there.
struct Items {
  struct Item {
    Bytes bytes = 0;                              ///< of outputs and workspace
    Bytes stays = 0;                              ///< of outputs that some stage reads
    std::vector<int> before, after;               ///< inside the window
    std::vector<int> reads;                       ///< values that may die here
    std::vector<std::pair<int, Bytes>> overlays;  ///< a value, and bytes over it if it dies
  };
  std::vector<Item> items;
  std::vector<Bytes> bytes;  // per value that may die
  std::vector<int> readers;  // of it, all of them in the window
  Bytes live = 0;            // before the first
  std::int64_t size = 0;     // the work of one pass over all of this
};

class ItemsOf {
 public:
  ItemsOf(const Schedule& schedule, int first, int last)
      : schedule_(schedule),
        graph_(schedule.graph()),
        first_(first),
        item_of_(graph_.num_stages(), kNone),
        value_of_(graph_.num_values(), kNone) {
    result_.items.resize(last - first);
    result_.live = schedule.live_before(first);
    for (int k = first; k < last; ++k) item_of_[schedule.order()[k]] = k - first;
  }

  Items make() {
    for (std::size_t i = 0; i < result_.items.size(); ++i) fill(static_cast<int>(i));
    for (const Items::Item& item : result_.items) {
      result_.size += static_cast<std::int64_t>(1 + item.before.size() + item.reads.size());
    }
    return std::move(result_);
  }

 private:
  void fill(int i) {
    const int position = schedule_.order()[first_ + i];
    const remat::Stage& stage = graph_.stage(position);
    Items::Item& item = result_.items[i];
    item.bytes = stage.workspace;
    for (int v : stage.outputs) {
      item.bytes += graph_.value(v).bytes;
      if (!graph_.value(v).readers.empty()) item.stays += graph_.value(v).bytes;
    }
    for (int v : stage.inputs) {
      if (may_die(v)) item.reads.push_back(number_of(v));
    }
    for (const auto& [output, input] : stage.overlays) {
      if (!may_die(input)) continue;
      item.overlays.emplace_back(number_of(input), graph_.value(output).bytes);
    }
    for (int earlier : schedule_.precedence().before(position)) {
      if (item_of_[earlier] == kNone) continue;
      item.before.push_back(item_of_[earlier]);
      result_.items[item_of_[earlier]].after.push_back(i);
    }
  }

  /// Readers before the window have run; a reader after it keeps the value live.
  bool may_die(int v) const {
    return std::ranges::none_of(graph_.value(v).readers, [&](int reader) {
      return item_of_[reader] == kNone && !has_run(reader);
    });
  }

  bool has_run(int stage) const {
    return stage != graph_.end() && schedule_.position(stage) < first_;
  }

  int number_of(int v) {
    if (value_of_[v] == kNone) {
      value_of_[v] = static_cast<int>(result_.bytes.size());
      result_.bytes.push_back(graph_.value(v).bytes);
      result_.readers.push_back(static_cast<int>(std::ranges::count_if(
          graph_.value(v).readers, [&](int reader) { return item_of_[reader] != kNone; })));
    }
    return value_of_[v];
  }

  const Schedule& schedule_;
  const remat::StageGraph& graph_;
  int first_;
  std::vector<int> item_of_;   // per stage
  std::vector<int> value_of_;  // per value
  Items result_;
};

using Done = std::vector<bool>;  // per item: whether it has run

/// A state: the stages that have run, and the memory after them.
class Moment {
 public:
  explicit Moment(const Items& items)
      : items_(items),
        left_(items.readers),
        missing_(items.items.size()),
        done_(missing_.size()),
        live_(items.live) {
    for (std::size_t i = 0; i < missing_.size(); ++i) {
      missing_[i] = static_cast<int>(items.items[i].before.size());
      if (missing_[i] == 0) ready_.push_back(static_cast<int>(i));
    }
  }

  const std::vector<int>& ready() const { return ready_; }
  const Done& done() const { return done_; }
  bool is_end() const { return ready_.empty(); }

  /// Bytes in use while the item runs.
  Bytes in_use(int i) const {
    Bytes bytes = live_ + items_.items[i].bytes;
    for (const auto& [value, overlaid] : items_.items[i].overlays) {
      if (left_[value] == 1) bytes -= overlaid;
    }
    return bytes;
  }
  /// The change of live bytes when the item runs.
  Bytes growth(int i) const {
    Bytes bytes = items_.items[i].stays;
    for (int v : items_.items[i].reads) {
      if (left_[v] == 1) bytes -= items_.bytes[v];
    }
    return bytes;
  }

  void run(int i) {
    live_ += growth(i);
    done_[i] = true;
    for (int v : items_.items[i].reads) --left_[v];
    std::erase(ready_, i);
    for (int later : items_.items[i].after) {
      if (--missing_[later] == 0) ready_.push_back(later);
    }
  }

 private:
  const Items& items_;
  std::vector<int> left_;     // per value: readers that have not run
  std::vector<int> missing_;  // per item: predecessors that have not run
  std::vector<int> ready_;
  Done done_;
  Bytes live_;
};

class Search {
 public:
  Search(const Items& items, Bytes at_least, Bytes below)
      : items_(items), below_(below), at_least_(std::max(at_least, items.live)) {}

  /// Positions in the window, in the order found; and the bound.
  std::pair<Bytes, std::optional<std::vector<int>>> run(std::int64_t work) {
    if (at_least_ >= below_) return {below_, std::nullopt};
    push({}, kNone, at_least_, 0);
    while (!open_.empty()) {
      const Open next = open_.top();
      if (spent_ > work) return {next.peak, std::nullopt};
      open_.pop();
      if (auto found = expand(next)) return {next.peak, std::move(found)};
    }
    return {below_, std::nullopt};
  }

  std::int64_t spent() const { return spent_; }

 private:
  /// How a set was reached: the stages that ran since its parent.
  struct Visit {
    int parent;
    std::vector<int> ran;
  };
  struct Open {
    Bytes peak;  ///< on the way to it
    int count;   ///< number of items that have run
    int visit;
    /// The least peak first, then the most items that have run.
    bool operator<(const Open& other) const {
      return std::tie(other.peak, count, other.visit) < std::tie(peak, other.count, visit);
    }
  };

  void push(std::vector<int> ran, int parent, Bytes peak, int count) {
    visits_.push_back({parent, std::move(ran)});
    open_.push({peak, count, static_cast<int>(visits_.size()) - 1});
  }

  std::vector<int> way_to(int visit) const {
    std::vector<int> way;
    for (; visit != kNone; visit = visits_[visit].parent) {
      way.insert(way.end(), visits_[visit].ran.rbegin(), visits_[visit].ran.rend());
    }
    std::ranges::reverse(way);
    return way;
  }

  /// All continuations of a set; returns an order once it is complete.
  std::optional<std::vector<int>> expand(const Open& from) {
    Moment moment(items_);
    std::vector<int> way = way_to(from.visit);
    for (int i : way) moment.run(i);
    spent_ += 2 * items_.size;
    if (!looked_at_.insert(moment.done()).second) return std::nullopt;
    const std::size_t began = way.size();
    run_what_is_free(moment, from.peak, way);
    if (moment.is_end()) return way;
    const std::vector<int> ran(way.begin() + static_cast<std::ptrdiff_t>(began), way.end());
    if (!ran.empty() && !looked_at_.insert(moment.done()).second) return std::nullopt;
    for (int i : moment.ready()) {
      const Bytes peak = std::max(from.peak, moment.in_use(i));
      if (peak >= below_ || !is_news(moment.done(), i, peak)) continue;
      std::vector<int> next = ran;
      next.push_back(i);
      push(std::move(next), from.visit, peak, static_cast<int>(way.size()) + 1);
    }
    return std::nullopt;
  }

  /// Whether this is the first path to that set and the item with so low a peak.
  bool is_news(Done set, int item, Bytes peak) {
    set[item] = true;
    spent_ += 64;
    const auto [known, is_new] = least_.emplace(std::move(set), peak);
    const bool is_less = is_new || peak < known->second;
    known->second = std::min(known->second, peak);
    return is_less;
  }

  void run_what_is_free(Moment& moment, Bytes peak, std::vector<int>& way) {
    const auto is_free = [&](int i) { return moment.growth(i) <= 0 && moment.in_use(i) <= peak; };
    while (true) {
      const auto found = std::ranges::find_if(moment.ready(), is_free);
      spent_ += static_cast<std::int64_t>(moment.ready().size());
      if (found == moment.ready().end()) return;
      const int i = *found;
      moment.run(i);
      way.push_back(i);
    }
  }

  const Items& items_;
  Bytes below_, at_least_;
  std::vector<Visit> visits_;
  std::unordered_set<Done> looked_at_;
  std::unordered_map<Done, Bytes> least_;  // per set that was reached: the peak on the way to it
  std::priority_queue<Open> open_;
  std::int64_t spent_ = 0;
};

}  // namespace

WindowAnswer least_window(const Schedule& schedule, int first, int last, const WindowGoal& goal) {
  const Items items = ItemsOf(schedule, first, last).make();
  Search search(items, goal.at_least, goal.below);
  auto [bound, way] = search.run(goal.work);
  WindowAnswer answer{.bound = std::min(bound, goal.below), .work = search.spent()};
  if (!way) return answer;
  answer.stages.emplace();
  for (int i : *way) answer.stages->push_back(schedule.order()[first + i]);
  return answer;
}

Bytes peak_of(const Schedule& schedule, int first, int last) {
  const auto begin = schedule.in_use().begin();
  return *std::max_element(begin + first, begin + last);
}

}  // namespace lowtide::ordering
