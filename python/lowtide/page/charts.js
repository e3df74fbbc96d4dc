"use strict";
// The four charts. Each takes a graph of the document and gives traces and a layout for plotly.

/** `entries`: of the legend, below which a phone has a row for each. */
function layoutOf(height, entries, changes) {
  const ink = variable("--ink"), line = variable("--line"), muted = variable("--muted");
  const axis = {
    gridcolor: line, zerolinecolor: line, linecolor: line, tickfont: { color: muted },
    title: { font: { color: muted, size: 12 }, standoff: 6 }, automargin: true,
  };
  const { xaxis = {}, yaxis = {}, ...others } = changes;
  const whole = (own) => ({ ...axis, ...own, title: { ...axis.title, ...own.title } });
  return {
    height: height + (NARROW.matches ? 17 * entries : 20 * Math.ceil(entries / 4)), paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: ink },
    margin: { l: NARROW.matches ? 44 : 60, r: 12, t: 8, b: 40 },
    hoverlabel: { bgcolor: variable("--card"), bordercolor: line, font: { color: ink, size: 12 }, align: "left" },
    legend: {
      orientation: "h", traceorder: "normal", x: 0, y: 0, yref: "container", yanchor: "bottom",
      font: { size: NARROW.matches ? 10.5 : 12 },
    },
    modebar: { bgcolor: "rgba(0,0,0,0)", color: muted, activecolor: variable("--accent") },
    dragmode: NARROW.matches ? false : "zoom",
    hovermode: "closest", xaxis: whole(xaxis), yaxis: whole(yaxis), ...others,
  };
}

function timeAxis(unit, end) {
  return { title: { text: `time of one step, ${unit}` }, range: [0, end], showgrid: false };
}

function level(name, at, end, unit, number) {
  const dashes = ["dash", "dot", "longdash", "dashdot"];
  return {
    type: "scatter", mode: "lines", name, x: [0, end], y: [at / unit.bytes, at / unit.bytes],
    line: { color: variable("--ink"), width: 1.3, dash: dashes[number % dashes.length] },
    hoverinfo: "text", text: Array(2).fill(`${plain(name)}: ${bytesText(at)}`),
  };
}

function memoryChart(graph) {
  const { bands, times, end, levels, measured } = graph.memory;
  const totals = times.map((_, i) => bands.reduce((sum, band) => sum + band.bytes[i], 0));
  const most = Math.max(0, ...totals, ...Object.values(levels), ...(measured ? measured.bytes : []));
  const unit = unitFor(most), last = Math.max(end, measured ? measured.times.at(-1) : 0);
  const groups = bands.filter((band) => band.group || graph.contents[band.content] === "activations");
  const traces = bands.map((band) => {
    const content = graph.contents[band.content], number = groups.indexOf(band);
    const colour = number < 0 ? colourOf(content) : shade(colourOf(content), number, groups.length);
    const name = band.group ? `${content}: ${brief(band.group, 34)}` : content;
    return {
      type: "scatter", mode: "lines", stackgroup: "live", name: plain(name), x: [...times, end],
      y: [...band.bytes, band.bytes.at(-1)].map((bytes) => bytes / unit.bytes),
      line: { shape: "hv", width: 0, color: colour }, fillcolor: colour, hoverinfo: "text",
      text: times.map((_, i) => `${plain(name)}: ${bytesText(band.bytes[i])}<br>of ${bytesText(totals[i])} in use`),
    };
  });
  Object.entries(levels).forEach(([name, at], i) => traces.push(level(name, at, last, unit, i)));
  if (measured) {
    traces.push({
      type: "scatter", mode: "lines", name: "measured", x: measured.times,
      y: measured.bytes.map((bytes) => bytes / unit.bytes), hoverinfo: "text",
      line: { color: variable("--ink"), width: 1.4, shape: "hv" },
      text: measured.bytes.map((bytes) => `measured: ${bytesText(bytes)}`),
    });
  }
  return {
    traces,
    layout: layoutOf(400, traces.length, {
      xaxis: timeAxis(graph.unit, last),
      yaxis: { title: { text: unit.name }, range: [0, 1.05 * most / unit.bytes] },
    }),
  };
}

/** Cells of a raster as numbers, empty ones as null. */
function cellsOf(raster) {
  const text = atob(raster.cells), rows = [];
  for (let row = 0; row < raster.rows; row += 1) {
    const own = [];
    for (let column = 0; column < raster.columns; column += 1) {
      const cell = text.charCodeAt(row * raster.columns + column);
      own.push(cell === 255 ? null : cell);
    }
    rows.push(own);
  }
  return rows;
}

function rasterTrace(graph, unit) {
  const { raster, end, arena_bytes } = graph.arena, count = graph.contents.length;
  const scale = graph.contents.flatMap((content, i) => [[i / count, colourOf(content)], [(i + 1) / count, colourOf(content)]]);
  const width = end / raster.columns, height = arena_bytes / raster.rows / unit.bytes;
  return {
    type: "heatmap", z: cellsOf(raster), x0: width / 2, dx: width, y0: height / 2, dy: height,
    zmin: -0.5, zmax: count - 0.5, colorscale: scale, showscale: false, hoverinfo: "skip",
  };
}

function boxText(graph, i) {
  const { begin, end, offset, bytes, name, layer } = graph.arena.boxes;
  const where = layer[i] ? `<br>in ${plain(brief(layer[i]))}` : "";
  return `<b>${plain(brief(name[i]))}</b>${where}<br>${bytesText(bytes[i])} at ${bytesText(offset[i])}` +
    `<br>from ${timeText(begin[i], graph.unit)} to ${timeText(end[i], graph.unit)}`;
}

function arenaChart(graph) {
  const { boxes, raster, end, arena_bytes, budget_bytes } = graph.arena;
  const unit = unitFor(arena_bytes), traces = raster ? [rasterTrace(graph, unit)] : [];
  // Of boxes that are thinner than a few pixels, an edge would leave nothing.
  const edge = (i) => (boxes.bytes[i] < arena_bytes / 90 || boxes.end[i] - boxes.begin[i] < end / 250 ? 0 : 0.6);
  graph.contents.forEach((content, number) => {
    const own = boxes.content.flatMap((other, i) => (other === number ? [i] : []));
    if (!own.length) return;
    traces.push({
      type: "bar", name: content, x: own.map((i) => (boxes.begin[i] + boxes.end[i]) / 2),
      width: own.map((i) => boxes.end[i] - boxes.begin[i]),
      base: own.map((i) => boxes.offset[i] / unit.bytes), y: own.map((i) => boxes.bytes[i] / unit.bytes),
      marker: { color: colourOf(content), line: { color: variable("--card"), width: own.map(edge) } },
      hoverinfo: "text", hovertext: own.map((i) => boxText(graph, i)), textposition: "none",
    });
  });
  if (budget_bytes) traces.push(level("budget", budget_bytes, end, unit, 0));
  return {
    traces,
    layout: layoutOf(440, traces.length, {
      barmode: "overlay", bargap: 0, xaxis: timeAxis(graph.unit, end),
      yaxis: { title: { text: `address, ${unit.name}` }, range: [0, 1.05 * Math.max(arena_bytes, budget_bytes || 0) / unit.bytes], showgrid: false },
    }),
  };
}

const LANE_COLOURS = {
  forward: "activations", backward: "values of the backward pass", optimizer: "values of the update",
  "run again": "activations made again", network: "gradients of parameters", "copies out": "optimizer state",
  "copies in": "moved back from slower memory", waits: "workspace",
};

function scheduleChart(graph) {
  const { lanes, end } = graph.schedule;
  const traces = lanes.map((lane) => ({
    type: "bar", orientation: "h", name: lane.lane, y: lane.begin.map(() => lane.lane),
    base: lane.begin, x: lane.end.map((at, i) => at - lane.begin[i]), width: 0.74,
    marker: { color: colourOf(LANE_COLOURS[lane.lane]), line: { width: 0 } },
    hoverinfo: "text", textposition: "none",
    hovertext: lane.name.map((name, i) => `<b>${plain(brief(name))}</b>` +
      (lane.count[i] > 1 ? ` and ${lane.count[i] - 1} more` : "") + `<br>${timeText(lane.busy[i], graph.unit)}`),
  }));
  return {
    traces,
    layout: layoutOf(Math.max(220, 80 + 40 * lanes.length), 0, {
      barmode: "overlay", showlegend: false, xaxis: timeAxis(graph.unit, end),
      yaxis: { autorange: "reversed", fixedrange: true, showgrid: false },
    }),
  };
}

function frontierChart(graph) {
  const { curve, peers, plan, titles, keep_all_peak_bytes, floor_bytes } = graph.frontier;
  const budgets = [keep_all_peak_bytes, plan.budget, ...curve.map((p) => p.budget), ...peers.map((p) => p.budget)];
  const unit = unitFor(Math.max(...budgets)), share = (value) => 100 * value;
  const x = (points) => points.map((point) => point.budget / unit.bytes);
  const said = (point, what) => `${what}<br>${bytesText(point.budget)}: ${percentText(point.overhead)} more time`;
  const traces = [];
  if (curve.length) {
    const bounded = curve.filter((point) => point.bound !== null);
    traces.push({
      type: "scatter", mode: "lines", name: "no plan is below", x: x(bounded), y: bounded.map((p) => share(p.bound)),
      fill: "tozeroy", fillcolor: variable("--line"), line: { color: variable("--muted"), width: 1, dash: "dot" },
      hoverinfo: "text", text: bounded.map((p) => `proved: no plan within ${bytesText(p.budget)}<br>costs less than ${percentText(p.bound)} more`),
    }, {
      type: "scatter", mode: "lines+markers", name: "search, at other budgets", x: x(curve), y: curve.map((p) => share(p.overhead)),
      line: { color: colourOf("activations"), width: 2 }, marker: { size: 6 }, hoverinfo: "text",
      text: curve.map((p) => said(p, "search")),
    });
  }
  if (peers.length) {
    traces.push({
      type: "scatter", mode: "markers+text", name: "other strategies", x: x(peers), y: peers.map((p) => share(p.overhead)),
      marker: { color: colourOf("optimizer state"), size: 8, symbol: "diamond" }, hoverinfo: "text",
      text: NARROW.matches ? undefined : peers.map((p) => plain(p.strategy)), textposition: "middle right",
      textfont: { size: 11, color: variable("--muted") },
      hovertext: peers.map((p) => said(p, `${plain(p.strategy)}: ${plain(titles[p.strategy] || "")}`)),
    });
  }
  if (plan.bound !== null) {
    traces.push({
      type: "scatter", mode: "lines", name: "how far it may be from the best", hoverinfo: "skip",
      x: [plan.budget / unit.bytes, plan.budget / unit.bytes], y: [share(plan.bound), share(plan.overhead)],
      line: { color: colourOf("activations made again"), width: 2 },
    });
  }
  traces.push({
    type: "scatter", mode: "markers", name: "this plan", x: [plan.budget / unit.bytes], y: [share(plan.overhead)],
    marker: { color: colourOf("activations made again"), size: 12 }, hoverinfo: "text", text: [said(plan, "this plan")],
  });
  if (floor_bytes) {
    const highest = Math.max(plan.overhead, ...curve.map((p) => p.overhead), ...peers.map((p) => p.overhead));
    traces.push({
      type: "scatter", mode: "lines", name: "no plan needs less memory", x: Array(2).fill(floor_bytes / unit.bytes),
      y: [0, share(highest) || 1], line: { color: variable("--muted"), width: 1.2, dash: "dash" }, hoverinfo: "text",
      text: Array(2).fill(`proved: no plan needs less than ${bytesText(floor_bytes)}`),
    });
  }
  return {
    traces,
    layout: layoutOf(360, traces.length, {
      xaxis: { title: { text: `budget, ${unit.name}` } },
      yaxis: { title: { text: "time above keep-all" }, ticksuffix: "%", rangemode: "tozero" },
    }),
  };
}
