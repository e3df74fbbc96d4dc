"use strict";
// Fills the page from its document, and again where the graph, the width or the colours change.

const DOCUMENT = JSON.parse(document.getElementById("data").textContent);
const ROWS_AT_FIRST = 60;
const TIMED = ["memory-chart", "arena-chart", "schedule-chart"];
const state = { graph: 0, sort: null, down: true, hidden: new Set(), shown: ROWS_AT_FIRST };

function figures(id, pairs) {
  fill(id, ...pairs.map(([name, value]) =>
    element("div", {}, element("dt", { textContent: name }), element("dd", { textContent: value }))));
}

function draw(id, chart) {
  const config = {
    responsive: true, displaylogo: false, displayModeBar: NARROW.matches ? true : "hover",
    modeBarButtons: [NARROW.matches ? ["zoomIn2d", "zoomOut2d", "resetScale2d"]
      : ["zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d", "toImage"]],
  };
  return Plotly.react(id, chart.traces, chart.layout, config);
}

/** Charts of time show the same part of the step. */
function zoomTogether() {
  let follows = false;
  TIMED.forEach((id) => {
    const chart = document.getElementById(id);
    if (!chart.on) return;
    chart.removeAllListeners("plotly_relayout");
    chart.on("plotly_relayout", (change) => {
      if (follows || !Object.keys(change).some((key) => key.startsWith("xaxis"))) return;
      follows = true;
      const range = [...chart.layout.xaxis.range];
      const others = TIMED.filter((other) => other !== id && document.getElementById(other).on);
      Promise.all(others.map((other) => Plotly.relayout(other, { "xaxis.range": range })))
        .finally(() => { follows = false; });
    });
  });
}

function captions(graph) {
  const { memory, arena, frontier } = graph;
  const columns = memory.times.length < memory.of ? " Where many actions share a column, its highest and lowest moment are drawn." : "";
  const measured = memory.measured ? ` The dark line was measured: ${memory.measured.how}.` : "";
  const shaded = memory.bands.some((band) => band.group) ? "; activations are shaded by layer" : "";
  document.getElementById("memory-caption").textContent =
    `Planned bytes in use during a step, stacked by what they hold${shaded}.${measured}${columns}`;
  document.getElementById("arena-caption").textContent = graph.addresses;
  if (arena) {
    const small = arena.raster ? ` The ${arena.raster.boxes} smallest are drawn as cells, without names.` : "";
    document.getElementById("arena-caption").textContent =
      `Each box is a value: from left to right its time in memory, from bottom to top its addresses.${small}`;
  }
  const bound = frontier.proved_for ? ` No plan ${frontier.proved_for} lies in the grey area: that is proved.` : "";
  const peers = frontier.peers.length ? " Diamonds are other strategies within the same budget, or the smallest that they reach." : "";
  const moves = frontier.moves && frontier.curve.length ? " This plan moves values, and the others do not." : "";
  document.getElementById("frontier-caption").textContent =
    `How much longer a step takes with less memory. Further down and to the left is better.${bound}${peers}${moves}`;
}

const HELD_COLUMNS = [
  ["name", "value"], ["bytes", "bytes", bytesText], ["layer", "layer"], ["made_by", "made by"], ["line", "line of your code"],
];

function heldTable(graph) {
  const { rows, rest, peak_bytes } = graph.held;
  const used = HELD_COLUMNS.filter(([key]) => rows.some((row) => row[key]));
  fill("held-table",
    element("thead", {}, element("tr", {}, ...used.map(([, title, text]) =>
      element("th", { textContent: title, className: text ? "number" : "" })))),
    element("tbody", {}, ...rows.map((row) => {
      const made = element("tr", {}, ...used.map((column) => cell(row, column)));
      made.firstChild.classList.add("share");
      made.style.cssText = `--part: ${(100 * row.bytes / peak_bytes).toFixed(2)}%`;
      return made;
    })));
  document.getElementById("held-note").textContent =
    rest.rows ? `And ${rest.rows} smaller values of ${bytesText(rest.bytes)} together.` : "";
}

const COLUMNS = [
  ["what", "decision"], ["name", "name"], ["bytes", "bytes", bytesText], ["times", "times again", (n) => (n ? String(n) : "")],
  ["cost", "time of keep-all", (share) => (share ? percentText(share) : "")], ["layer", "layer"], ["line", "line of your code"], ["why", "why"],
];
const TAGS = { kept: "activations", "run again": "activations made again", moved: "moved back from slower memory" };

function chosenRows(graph) {
  const wanted = document.getElementById("search").value.toLowerCase();
  const rows = graph.decisions.rows.filter((row) => !state.hidden.has(row.what) &&
    (!wanted || Object.values(row).join(" ").toLowerCase().includes(wanted)));
  if (!state.sort) return rows;
  const sign = state.down ? -1 : 1, key = state.sort;
  return rows.sort((a, b) => sign * (typeof a[key] === "number" ? a[key] - b[key] : a[key].localeCompare(b[key])));
}

/** The layer has a column of its own. */
function withoutLayer(name, layer) {
  return layer && name.startsWith(`${layer}.`) ? name.slice(layer.length + 1) : name;
}

function cell(row, [key, title, text]) {
  if (key === "what") {
    return element("td", {}, element("span", { className: "tag", textContent: row.what, style: `color: ${colourOf(TAGS[row.what])}` }));
  }
  const kind = text ? "number" : key === "line" || key === "why" ? key : "name";
  const shown = key === "name" || key === "made_by" ? withoutLayer(row[key], row.layer) : row[key];
  const made = element("td", { className: kind, textContent: text ? text(row[key]) : shown });
  made.dataset.title = title;  // a phone shows it in front
  return made;
}

function heading([key, title, text], graph) {
  const mark = state.sort === key ? (state.down ? " ↓" : " ↑") : "";
  const press = () => {
    state.down = state.sort === key ? !state.down : Boolean(text);
    state.sort = key;
    decisionsTable(graph);
  };
  return element("th", { className: text ? "number" : "" },
    element("button", { type: "button", textContent: title + mark, onclick: press }));
}

function decisionsTable(graph) {
  const rows = chosenRows(graph), used = COLUMNS.filter(([key]) => graph.decisions.rows.some((row) => row[key]));
  fill("decisions-table", element("thead", {}, element("tr", {}, ...used.map((column) => heading(column, graph)))),
    element("tbody", {}, ...rows.slice(0, state.shown).map((row) =>
      element("tr", {}, ...used.map((column) => cell(row, column))))));
  const left = Object.entries(graph.decisions.left_out).map(([what, { rows: count, bytes }]) =>
    `${count} more ${what}, of ${bytesText(bytes)}, are not in this page`);
  document.getElementById("decisions-note").textContent =
    [`${Math.min(rows.length, state.shown)} of ${rows.length} rows`, ...left].join("; ") + ".";
  document.getElementById("more").hidden = rows.length <= state.shown;
}

function filters(graph) {
  const kinds = [...new Set(graph.decisions.rows.map((row) => row.what))];
  fill("filters", ...kinds.map((kind) => {
    const box = element("input", { type: "checkbox", checked: !state.hidden.has(kind) });
    box.onchange = () => {
      if (box.checked) state.hidden.delete(kind); else state.hidden.add(kind);
      decisionsTable(graph);
    };
    return element("label", {}, box, ` ${kind}`);
  }));
}

async function show() {
  const graph = DOCUMENT.graphs[state.graph];
  document.getElementById("graph-lead").textContent = graph.lead;
  figures("graph-figures", DOCUMENT.figures.length ? graph.figures : []);
  captions(graph);
  document.getElementById("arena").hidden = !graph.arena && !graph.addresses;
  document.getElementById("arena-chart").hidden = !graph.arena;
  await draw("memory-chart", memoryChart(graph));
  if (graph.arena) await draw("arena-chart", arenaChart(graph));
  await draw("schedule-chart", scheduleChart(graph));
  await draw("frontier-chart", frontierChart(graph));
  zoomTogether();
  heldTable(graph);
  filters(graph);
  decisionsTable(graph);
  const advice = [...DOCUMENT.advice, ...graph.advice];
  document.getElementById("advice").hidden = !advice.length;
  fill("advice-list", ...advice.map((text) => element("li", { textContent: text })));
  document.documentElement.dataset.drawn = graph.name;
}

function begin() {
  const { title, lead, graphs } = DOCUMENT;
  document.getElementById("title").textContent = title;
  document.getElementById("lead").textContent = lead;
  figures("figures", DOCUMENT.figures.length ? DOCUMENT.figures : graphs[0].figures);
  const choice = document.getElementById("graph");
  choice.replaceChildren(...graphs.map((graph, i) => element("option", { value: i, textContent: graph.name })));
  document.getElementById("graphs").hidden = graphs.length < 2;
  choice.onchange = () => { state.graph = Number(choice.value); state.shown = ROWS_AT_FIRST; show(); };
  document.getElementById("search").oninput = () => decisionsTable(graphs[state.graph]);
  document.getElementById("more").onclick = () => { state.shown += 300; decisionsTable(graphs[state.graph]); };
  [DARK, NARROW].forEach((query) => query.addEventListener("change", show));
  show();
}

begin();
