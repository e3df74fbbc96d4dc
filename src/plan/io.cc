#include "plan/io.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/json_record.h"
#include "plan/lanes_json.h"
#include "plan/second_place_json.h"

namespace lowtide {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::pair<Verb, std::string_view>, 5> kVerbs{{{Verb::run, "run"},
                                                                   {Verb::free, "free"},
                                                                   {Verb::offload, "offload"},
                                                                   {Verb::prefetch, "prefetch"},
                                                                   {Verb::wait, "wait"}}};

// ---- Reading ----------------------------------------------------------------------------------

/// A plan whose layout is not yet in the order of its actions.
struct Draft {
  Plan plan;
  std::int64_t version = 0;
  std::optional<Bytes> arena_bytes;
  std::vector<Bytes> borders;
  std::optional<std::vector<std::pair<std::int32_t, std::vector<Placement>>>> offsets;
};

/// Calls read(item) for each item of a list; adds the item to error messages.
template <typename Read>
void for_each_item(JsonValue list, Read read) {
  std::size_t at = 0;
  for (JsonValue item : list.items()) {
    try {
      read(item);
    } catch (const InputError& error) {
      throw InputError(fmt::format("item {} {}", at, error.what()));
    }
    ++at;
  }
}

Verb read_verb(JsonValue value) {
  for (const auto& [verb, text] : kVerbs) {
    if (value.text() == text) return verb;
  }
  throw InputError(
      fmt::format("must be \"run\", \"free\", \"offload\", \"prefetch\" or \"wait\", not \"{}\"",
                  value.text()));
}

Action read_action(JsonValue value) {
  const std::vector<JsonValue> items = value.items();
  if (items.size() < 2 || items.size() > 3) {
    throw InputError("must be [verb, index] or [\"run\", op, [positions written in place]]");
  }
  Action action{read_verb(items[0]), items[1].index(), {}};
  if (items.size() == 3) {
    if (action.verb != Verb::run) throw InputError("has positions, which only a run may have");
    action.in_place = items[2].indices();
  }
  return action;
}

bool read_actions(Draft& draft, JsonValue value) {
  for_each_item(value, [&](JsonValue item) { draft.plan.actions.push_back(read_action(item)); });
  return true;
}

Placement read_placement(JsonValue value) {
  const std::vector<JsonValue> items = value.items();
  if (items.size() != 3 || (items[0].text() != "t" && items[0].text() != "w")) {
    throw InputError("must be a list of [\"t\", tensor, offset] or [\"w\", op, offset]");
  }
  return {items[0].text() == "w", items[1].index(), items[2].integer()};
}

bool read_offsets(Draft& draft, JsonValue value) {
  draft.offsets.emplace();
  for_each_item(value, [&](JsonValue item) {
    const std::vector<JsonValue> pair = item.items();
    if (pair.size() != 2) throw InputError("must be [index of an action, list of addresses]");
    std::vector<Placement> placements;
    for (JsonValue placement : pair[1].items()) placements.push_back(read_placement(placement));
    draft.offsets->emplace_back(pair[0].index(), std::move(placements));
  });
  return true;
}

bool read_borders(Draft& draft, JsonValue value) {
  for (JsonValue border : value.items()) draft.borders.push_back(border.integer());
  return true;
}

bool read_plan_version(Draft& draft, JsonValue value) {
  draft.version = read_version(value, 4);
  return true;
}

SlowerMemory& slower(Draft& draft) {
  if (!draft.plan.slower) draft.plan.slower.emplace();
  return *draft.plan.slower;
}

bool read_copies(Draft& draft, JsonValue value) {
  for_each_item(value, [&](JsonValue item) {
    const std::vector<JsonValue> pair = item.items();
    if (pair.size() != 2) throw InputError("must be [tensor, offset]");
    slower(draft).copies.push_back({pair[0].index(), pair[1].integer()});
  });
  return true;
}

bool read_residents(Draft& draft, JsonValue value) {
  slower(draft).residents = value.indices();
  return true;
}

bool read_plan_format(Draft&, JsonValue value) {
  if (value.text() == "lowtide-plan") return true;
  throw InputError(fmt::format("must be \"lowtide-plan\", not \"{}\"", value.text()));
}

constexpr std::array kFields = std::to_array<Field<Draft>>({
    {"format", true, read_plan_format},
    {"version", true, read_plan_version},
    {"actions", true, read_actions},
    {"cost", true,
     [](Draft& d, JsonValue v) {
       d.plan.cost = v.number();
       return true;
     }},
    {"peak_bytes", true,
     [](Draft& d, JsonValue v) {
       d.plan.peak_bytes = v.integer();
       return true;
     }},
    {"graph", false,
     [](Draft& d, JsonValue v) {
       d.plan.graph = v.text();
       return true;
     }},
    {"strategy", false,
     [](Draft& d, JsonValue v) {
       d.plan.strategy = v.text();
       return true;
     }},
    {"budget_bytes", false,
     [](Draft& d, JsonValue v) {
       d.plan.budget_bytes = v.integer();
       return true;
     }},
    {"lower_bound", false,
     [](Draft& d, JsonValue v) {
       d.plan.lower_bound = v.number();
       return true;
     }},
    {"model", false,
     [](Draft& d, JsonValue v) {
       d.plan.model = v.text();
       return true;
     }},
    {"seconds", false,
     [](Draft& d, JsonValue v) {
       d.plan.seconds = v.number();
       return true;
     }},
    {"arena_bytes", false,
     [](Draft& d, JsonValue v) {
       d.arena_bytes = v.integer();
       return true;
     }},
    {"borders", false, read_borders},
    {"lane_out", false,
     [](Draft& d, JsonValue v) {
       slower(d).lanes.out = read_lane(v);
       return true;
     }},
    {"lane_in", false,
     [](Draft& d, JsonValue v) {
       slower(d).lanes.in = read_lane(v);
       return true;
     }},
    {"lanes_shared", false,
     [](Draft& d, JsonValue v) {
       slower(d).lanes.shared = v.boolean();
       return true;
     }},
    {"slower_bytes", false,
     [](Draft& d, JsonValue v) {
       slower(d).bytes = v.integer();
       return true;
     }},
    {"second_place", false,
     [](Draft& d, JsonValue v) {
       slower(d).second = read_second_place(v);
       return true;
     }},
    {"copies", false, read_copies},
    {"residents", false, read_residents},
    {"offsets", false, read_offsets},
});

/// In version 1 an offload ended the life of its value, and a prefetch brought it at once.
void bring_up_to_date(Draft& draft) {
  std::vector<Action> actions;
  std::vector<std::int32_t> moved;  // by action: its new index
  for (Action& action : draft.plan.actions) {
    const Action before = action;
    moved.push_back(static_cast<std::int32_t>(actions.size()));
    actions.push_back(std::move(action));
    const bool copies = before.verb == Verb::offload || before.verb == Verb::prefetch;
    if (copies) actions.push_back({Verb::wait, before.index, {}});
    if (before.verb == Verb::offload) actions.push_back({Verb::free, before.index, {}});
  }
  if (draft.offsets) {
    for (auto& [at, placements] : *draft.offsets) {
      if (static_cast<std::size_t>(at) < moved.size()) at = moved[static_cast<std::size_t>(at)];
    }
  }
  draft.plan.actions = std::move(actions);
}

Plan finished(Draft draft) {
  if (draft.version == 1) bring_up_to_date(draft);
  if (!draft.offsets) return std::move(draft.plan);
  if (!draft.arena_bytes) throw InputError("the key \"arena_bytes\" is missing for \"offsets\"");
  const std::size_t count = draft.plan.actions.size();
  Layout layout{std::vector<std::vector<Placement>>(count), *draft.arena_bytes,
                std::move(draft.borders)};
  for (auto& [at, placements] : *draft.offsets) {
    if (static_cast<std::size_t>(at) >= count) {
      throw InputError(
          fmt::format("\"offsets\" has addresses for action {}, but there are {}", at, count));
    }
    layout.placements[at] = std::move(placements);
  }
  draft.plan.layout = std::move(layout);
  return std::move(draft.plan);
}

Plan read_plan_stream(std::istream& stream, const std::string& source) {
  return with_source(source, [&] {
    Draft draft;
    Record<Draft> record(kFields);
    JsonListener listener;
    listener.member = [&](std::string_view key, JsonValue value) {
      record.read(draft, key, value);
    };
    read_json_object(stream, {}, listener);
    record.finish();
    return finished(std::move(draft));
  });
}

// ---- Writing ----------------------------------------------------------------------------------

std::string_view verb_text(Verb verb) {
  for (const auto& [known, text] : kVerbs) {
    if (known == verb) return text;
  }
  return kVerbs.front().second;
}

void append_action(std::string& text, const Action& action) {
  text += fmt::format("[\"{}\", {}", verb_text(action.verb), action.index);
  if (!action.in_place.empty()) text += ", " + Json(action.in_place).dump();
  text += ']';
}

void append_placements(std::string& text, std::size_t at, const std::vector<Placement>& born) {
  text += fmt::format("[{}, [", at);
  const char* separator = "";
  for (const Placement& p : born) {
    text +=
        fmt::format("{}[\"{}\", {}, {}]", separator, p.workspace ? "w" : "t", p.index, p.offset);
    separator = ", ";
  }
  text += "]]";
}

/// One item per line, so that files can be compared by line.
template <typename Append>
void append_list(std::string& text, std::string_view key, std::size_t count, Append append) {
  text += fmt::format(",\n \"{}\": [", key);
  const char* separator = "\n  ";
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t before = text.size();
    text += separator;
    if (append(i)) {
      separator = ",\n  ";
    } else {
      text.resize(before);
    }
  }
  text += ']';
}

/// Earlier programs read what they can follow: plans without a second place, without residents that
/// move, or without copies.
int version_of(const Plan& plan) {
  if (plan.slower && plan.slower->second) return 4;
  if (plan.slower && !plan.slower->residents.empty()) return 3;
  const bool moves = std::ranges::any_of(plan.actions, moves_values, &Action::verb);
  return moves || plan.slower ? 2 : 1;
}

void add_slower_memory(Json& header, const SlowerMemory& slower) {
  header["lane_out"] = lane_json(slower.lanes.out);
  header["lane_in"] = lane_json(slower.lanes.in);
  header["lanes_shared"] = slower.lanes.shared;
  header["slower_bytes"] = slower.bytes;
  header["copies"] = Json::array();
  for (const Copy& copy : slower.copies) header["copies"].push_back({copy.storage, copy.offset});
  if (!slower.residents.empty()) header["residents"] = slower.residents;
  if (slower.second) header["second_place"] = second_place_json(*slower.second);
}

Json header_json(const Plan& plan) {
  Json header{{"format", "lowtide-plan"},
              {"version", version_of(plan)},
              {"graph", plan.graph},
              {"strategy", plan.strategy}};
  if (plan.budget_bytes) header["budget_bytes"] = *plan.budget_bytes;
  header["cost"] = plan.cost;
  header["peak_bytes"] = plan.peak_bytes;
  header["lower_bound"] = nullptr;
  if (plan.lower_bound) header["lower_bound"] = *plan.lower_bound;
  header["model"] = plan.model;
  header["seconds"] = plan.seconds;
  if (plan.layout) header["arena_bytes"] = plan.layout->arena_bytes;
  if (plan.layout && !plan.layout->borders.empty()) header["borders"] = plan.layout->borders;
  if (plan.slower) add_slower_memory(header, *plan.slower);
  return header;
}

}  // namespace

Plan read_plan(const std::filesystem::path& path) {
  const std::unique_ptr<std::istream> stream = open_for_reading(path);
  return read_plan_stream(*stream, path.string());
}

Plan parse_plan(std::string_view text, const std::string& source) {
  std::istringstream stream{std::string(text)};
  return read_plan_stream(stream, source);
}

std::string format_plan(const Plan& plan) {
  // Names may contain any bytes; JSON allows only UTF-8.
  std::string text = header_json(plan).dump(-1, ' ', false, Json::error_handler_t::replace);
  text.pop_back();
  append_list(text, "actions", plan.actions.size(), [&](std::size_t i) {
    append_action(text, plan.actions[i]);
    return true;
  });
  if (plan.layout) {
    append_list(text, "offsets", plan.layout->placements.size(), [&](std::size_t i) {
      const std::vector<Placement>& born = plan.layout->placements[i];
      if (!born.empty()) append_placements(text, i, born);
      return !born.empty();
    });
  }
  return text + "}\n";
}

void write_plan(const Plan& plan, const std::filesystem::path& path) {
  write_file(path, format_plan(plan));
}

}  // namespace lowtide
