// Asks once a second what is known of the training, and draws it.
"use strict";

const EVERY = 1000;
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];
const SVG = "http://www.w3.org/2000/svg";
const FIGURES = {
  budget_bytes: "budget", planned_bytes: "planned peak", peak_bytes: "measured peak",
  existing_bytes: "existed before the pass", outside_bytes: "taken outside",
  moved_out_bytes: "moved out", moved_back_bytes: "moved back",
  predicted_seconds: "a pass, predicted", predicted_overhead: "time above keep-all, predicted",
};

function bytesText(bytes) {
  const unit = bytes < 1 ? 0 : Math.min(UNITS.length - 1, Math.floor(Math.log2(bytes) / 10));
  return `${unit ? (bytes / 1024 ** unit).toPrecision(3) : bytes} ${UNITS[unit]}`;
}

function figureText(name, value) {
  if (name.endsWith("_bytes")) return bytesText(value);
  return name === "predicted_overhead" ? `${(100 * value).toFixed(2)}%` : `${(1000 * value).toPrecision(3)} ms`;
}

function numberText(value) {
  return Number(value.toPrecision(4)).toString();
}

function element(kind, text = "", kindOf = "") {
  const made = document.createElement(kind);
  made.textContent = text;
  made.className = kindOf;
  return made;
}

function secondsText(seconds) {
  const whole = Math.round(seconds);
  const parts = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  return parts.map((part) => String(part).padStart(2, "0")).join(":");
}

function rateFigures(name, rate) {
  const found = [[name, rate.whole ? `${rate.count} of ${rate.whole}` : `${rate.count}`]];
  if (rate.per_second === null) return found;
  found.push([`${name} in a second`, numberText(rate.per_second)]);
  if (rate.whole) found.push(["time left", secondsText((rate.whole - rate.count) / rate.per_second)]);
  return found;
}

function showFigures(state) {
  const shown = Object.keys(FIGURES).filter((name) => name in state.figures)
    .map((name) => [FIGURES[name], figureText(name, state.figures[name])]);
  if (state.passes) shown.unshift(...rateFigures("passes", state.passes));
  if (state.steps.count) shown.unshift(...rateFigures("steps", state.steps));
  document.getElementById("figures").replaceChildren(...shown.map(([name, text]) => {
    const box = element("div");
    box.append(element("dt", name), element("dd", text));
    return box;
  }));
}

// Pieces of a curve between values that are no numbers.
function pieces(curve) {
  const found = [[]];
  curve.values.forEach((value, i) => {
    if (value === null) found.push([]);
    else found[found.length - 1].push([curve.seconds[i], value]);
  });
  return found.filter((piece) => piece.length);
}

function svgElement(kind, attributes) {
  const made = document.createElementNS(SVG, kind);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

// `curves`: each with `name`, `kind` and what the training says of it.
function chart(title, note, curves, end, textOf, fromZero) {
  const section = element("section");
  section.dataset.chart = title;
  section.append(element("h2", title), element("p", note));
  const values = curves.flatMap((curve) => curve.values.filter((value) => value !== null));
  if (!values.length) return section;
  const least = fromZero ? 0 : Math.min(...values);
  const most = Math.max(...values);
  const height = most > least ? most - least : Math.abs(most) || 1;
  const keys = element("p");
  for (const curve of curves) {
    const last = curve.values.findLast((value) => value !== null);
    keys.append(element("span", `${curve.name}${last === undefined ? "" : `: ${textOf(last)}`}`, `key ${curve.kind}`));
  }
  const picture = svgElement("svg", { viewBox: "0 0 1000 100", preserveAspectRatio: "none", role: "img" });
  picture.append(svgElement("title", {}));
  picture.firstChild.textContent = `${title}: from ${textOf(least)} to ${textOf(most)}`;
  for (const y of [0, 50, 100]) picture.append(svgElement("line", { x1: 0, x2: 1000, y1: y, y2: y, class: "grid" }));
  for (const curve of curves) {
    for (const piece of pieces(curve)) {
      const drawn = piece.length > 1 ? piece : [piece[0], [piece[0][0] + end / 200, piece[0][1]]];
      const points = drawn.map(([at, value]) => `${(1000 * at) / end},${100 - (100 * (value - least)) / height}`);
      picture.append(svgElement("polyline", { points: points.join(" "), class: curve.kind }));
    }
  }
  const ends = element("div", "", "ends");
  ends.append(element("span", `${textOf(least)} to ${textOf(most)}`), element("span", `${numberText(end)} s`));
  section.append(keys, picture, ends);
  return section;
}

function noteOf(curve, how) {
  return curve.per_point > 1 ? `Each point is the ${how} of ${curve.per_point}.` : "";
}

function memoryChart(state) {
  const { peak_bytes: peak, planned_bytes: planned } = state.memory;
  const curves = [{ name: "measured peak", kind: "first", ...peak }, { name: "planned peak", kind: "second", ...planned }];
  const budget = state.figures.budget_bytes;
  if (budget !== undefined) {
    curves.push({ name: "budget", kind: "third", seconds: [0, state.seconds], values: [budget, budget] });
  }
  return chart("memory of a pass", noteOf(peak, "highest"), curves, state.seconds, bytesText, true);
}

function draw(state) {
  document.title = `${state.name}: Lowtide`;
  document.getElementById("name").textContent = state.name;
  document.getElementById("status").textContent = `Running for ${Math.round(state.seconds)} s.`;
  showFigures(state);
  const others = Object.entries(state.values).map(([name, curve]) => chart(
    name, noteOf(curve, "mean"), [{ name, kind: "first", ...curve }], state.seconds, numberText, false));
  document.getElementById("charts").replaceChildren(memoryChart(state), ...others);
  document.documentElement.dataset.drawn = (state.passes ?? state.steps).count;
}

async function ask() {
  let state;
  try {
    const answer = await fetch("state");
    if (!answer.ok) throw new Error(answer.statusText);
    state = await answer.json();
  } catch {
    document.getElementById("status").textContent = "The training has ended, or its page was closed: these are the last figures.";
    document.documentElement.dataset.ended = "true";
    return;
  }
  draw(state);
  setTimeout(ask, EVERY);
}

ask();
