#include "report/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <span>
#include <utility>

#include "plan/places.h"
#include "plan/replay.h"
#include "plan/residents.h"
#include "report/table.h"

namespace lowtide::report {
namespace {

std::vector<Explanation::Again> recomputations(const Graph& graph, const Plan& plan) {
  std::vector<int> runs(graph.ops().size());
  for (const Action& action : plan.actions) {
    if (action.verb == Verb::run) ++runs[static_cast<std::size_t>(action.index)];
  }
  const std::vector<std::optional<Absence>> away = absences(graph, plan);
  std::vector<Explanation::Again> again;
  for (OpId id = 0; id < graph.num_ops(); ++id) {
    const int count = runs[static_cast<std::size_t>(id)];
    if (count > 1) again.push_back({id, count, (count - 1) * graph.op(id).cost, away[id]});
  }
  std::ranges::stable_sort(again, std::greater<>(), &Explanation::Again::cost);
  return again;
}

std::vector<Explanation::Moved> moves(const Graph& graph, const Plan& plan,
                                      const std::vector<double>& waited) {
  const PlaceLanes lanes = lanes_of_places(plan);
  const std::vector<PlaceIndex> places = places_of_copies(graph, plan);
  std::map<TensorId, Explanation::Moved> by_storage;
  for (const Action& action : plan.actions) {
    if (action.verb != Verb::offload && action.verb != Verb::prefetch) continue;
    const TensorId id = graph.storage(action.index);
    const PlaceIndex place = places[static_cast<std::size_t>(id)];
    Explanation::Moved& moved =
        by_storage.try_emplace(id, id, place, 0, 0.0, waited[static_cast<std::size_t>(id)])
            .first->second;
    const bool is_back = action.verb == Verb::prefetch;
    moved.times_back += is_back ? 1 : 0;
    const Lanes& of_place = lanes.of(place);
    moved.copies += (is_back ? of_place.in : of_place.out).time(graph.tensor(id).bytes);
  }
  std::vector<Explanation::Moved> moved;
  for (const auto& [id, one] : by_storage) moved.push_back(one);
  std::ranges::stable_sort(moved, std::greater<>(),
                           [&](const auto& one) { return graph.tensor(one.storage).bytes; });
  return moved;
}

/// The first items of a list; the rest is only counted.
template <typename Item>
std::span<const Item> head(const std::vector<Item>& items, int most) {
  return std::span(items).first(std::min(items.size(), static_cast<std::size_t>(most)));
}

std::string left_out(std::size_t count, std::string_view what) {
  return count == 0 ? "" : fmt::format("and {} {}\n", count, what);
}

/// A resident that is in memory for a while is made by no op.
std::string maker_text(const Graph& graph, TensorId storage) {
  const OpId maker = graph.producer(storage);
  if (maker == kNone) return "slower memory";
  return fmt::format("{} ({})", graph.op(maker).name, name(graph.op(maker).phase));
}

std::string held_text(const Graph& graph, const Explanation& e, int most, std::size_t columns) {
  Table table({"held at the peak", "bytes", "made by"});
  table.align(2, Table::Align::left);
  table.add({"(resident tensors)", format_bytes(e.resident_bytes), format_kinds(e.residents)});
  if (e.workspace_bytes > 0) table.add({"(workspace)", format_bytes(e.workspace_bytes)});
  const auto shown = head(e.held, most);
  for (const Explanation::Held& held : shown) {
    table.add(
        {graph.tensor(held.tensor).name, format_bytes(held.bytes), maker_text(graph, held.tensor)});
  }
  Bytes rest = 0;
  for (std::size_t i = shown.size(); i < e.held.size(); ++i) rest += e.held[i].bytes;
  return table.text(columns) +
         left_out(e.held.size() - shown.size(),
                  fmt::format("smaller values of {} together", format_bytes(rest)));
}

std::string taken_text(const Graph& graph, const Absence& away) {
  return fmt::format("{} from {} to {}", format_bytes(away.bytes), graph.op(away.last_used_in).name,
                     graph.op(away.back_for).name);
}

std::string room_text(const Graph& graph, const Absence& away) {
  return fmt::format("{} in {}", format_bytes(away.room), graph.op(away.tightest).name);
}

std::string again_text(const Graph& graph, const Explanation& e, int most, std::size_t columns) {
  if (e.again.empty()) return "Nothing runs again.\n";
  Table table({"runs again", "type", "times", "share of keep-all", "held instead, it takes",
               "but there is room for"});
  table.align(1, Table::Align::left);
  table.align(4, Table::Align::left);
  table.align(5, Table::Align::left);
  const double whole = e.keep_all_cost > 0 ? e.keep_all_cost : 1;
  const auto shown = head(e.again, most);
  for (const Explanation::Again& again : shown) {
    const Op& op = graph.op(again.op);
    table.add({op.name, op.type, fmt::format("{}", again.runs - 1),
               fmt::format("{:.2f}%", 100 * again.cost / whole),
               again.absence ? taken_text(graph, *again.absence) : "",
               again.absence ? room_text(graph, *again.absence) : ""});
  }
  return table.text(columns) + left_out(e.again.size() - shown.size(), "cheaper ones");
}

std::string moved_text(const Graph& graph, const Explanation& e, int most, std::size_t columns) {
  if (e.moved.empty()) return "";
  std::vector<std::string> titles = {"moves to slower memory", "bytes", "times back",
                                     "copies, of keep-all", "waited"};
  if (e.has_two_places) titles.push_back("lies in");
  Table table(std::move(titles));
  if (e.has_two_places) table.align(5, Table::Align::left);
  const double whole = e.keep_all_cost > 0 ? e.keep_all_cost : 1;
  const auto shown = head(e.moved, most);
  for (const Explanation::Moved& moved : shown) {
    std::vector<std::string> cells = {
        graph.tensor(moved.storage).name, format_bytes(graph.tensor(moved.storage).bytes),
        fmt::format("{}", moved.times_back), fmt::format("{:.2f}%", 100 * moved.copies / whole),
        fmt::format("{:.2f}%", 100 * moved.waited / whole)};
    if (e.has_two_places) {
      cells.push_back(moved.place == PlaceIndex::first ? "the host's memory" : "the disk");
    }
    table.add(std::move(cells));
  }
  return "\n" + table.text(columns) + left_out(e.moved.size() - shown.size(), "smaller ones");
}

}  // namespace

double Explanation::overhead() const {
  // No plan costs less than keep-all: a sum in another order may seem to.
  return keep_all_cost > 0 ? std::max(0.0, cost / keep_all_cost - 1) : 0;
}

Explanation explain(const Graph& graph, const Plan& plan) {
  const Replay replayed = replay(graph, plan);
  const KeepAll reference = keep_all_reference(graph);
  Explanation e;
  e.peak_bytes = replayed.peak_bytes;
  if (!plan.actions.empty()) {
    const Action& at = plan.actions[static_cast<std::size_t>(replayed.peak_action)];
    if (at.verb == Verb::run) e.peak_op = at.index;
  }
  e.resident_bytes = staying_bytes(graph, plan);
  e.residents = residents_by_kind(graph, residents_away(graph, plan));
  e.workspace_bytes = replayed.workspace_at_peak;
  for (TensorId id : replayed.live_at_peak) {
    const Bytes bytes = graph.tensor(id).bytes;
    if (bytes > 0) e.held.push_back({id, bytes});
  }
  e.again = recomputations(graph, plan);
  e.moved = moves(graph, plan, replayed.waited);
  e.has_two_places = plan.slower && plan.slower->second;
  e.cost = replayed.cost;
  e.keep_all_cost = reference.cost;
  e.keep_all_peak_bytes = reference.peak_bytes;
  return e;
}

std::string format_explanation(const Graph& graph, const Explanation& e, int most,
                               std::size_t columns) {
  const double share = e.keep_all_peak_bytes > 0 ? static_cast<double>(e.peak_bytes) /
                                                       static_cast<double>(e.keep_all_peak_bytes)
                                                 : 1;
  std::string text = fmt::format(
      "The peak is {}, {:.1f}% of the {} that keep-all needs{}.\n"
      "A step costs {:.2f}% more than keep-all.\n\n",
      format_bytes(e.peak_bytes), 100 * share, format_bytes(e.keep_all_peak_bytes),
      e.peak_op == kNone ? "" : fmt::format("; it is reached in {}", graph.op(e.peak_op).name),
      100 * e.overhead());
  return text + held_text(graph, e, most, columns) + "\n" + again_text(graph, e, most, columns) +
         moved_text(graph, e, most, columns);
}

}  // namespace lowtide::report
