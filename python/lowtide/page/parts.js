"use strict";
// What charts and tables share: units, colours, texts.

const DARK = matchMedia("(prefers-color-scheme: dark)");
const NARROW = matchMedia("(max-width: 600px)");

/** As Lowtide writes bytes elsewhere. */
function bytesText(bytes) {
  const names = ["KiB", "MiB", "GiB", "TiB", "PiB"];
  if (bytes < 1024) return `${bytes} B`;
  let amount = bytes / 1024, unit = 0;
  while (amount >= 1023.5 && unit + 1 < names.length) { amount /= 1024; unit += 1; }
  return `${amount.toFixed(amount < 9.995 ? 2 : amount < 99.95 ? 1 : 0)} ${names[unit]}`;
}

function unitFor(most) {
  const names = ["B", "KiB", "MiB", "GiB", "TiB"];
  let number = 0;
  while (number + 1 < names.length && most >= 1024 ** (number + 1)) number += 1;
  return { name: names[number], bytes: 1024 ** number };
}

function percentText(share) { return `${(100 * share).toFixed(2)}%`; }

function timeText(time, unit) { return `${Number(time.toPrecision(4))} ${unit}`; }

/** For plotly, which reads a few tags in texts: names show as they are. */
function plain(text) {
  return String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
}

/** A long name less its middle. */
function brief(text, most = 46) {
  return text.length <= most ? text : `${text.slice(0, most / 2 - 1)}…${text.slice(-(most / 2))}`;
}

const COLOURS = {
  light: {
    "held beside this graph": "#dde2e7", "parameters": "#5b6b7b", "optimizer state": "#8d9aa7",
    "batch and buffers": "#bcc6cf", "gradients of parameters": "#d09a2c",
    "activations": "#1f8a83", "activations made again": "#cf5c2e",
    "values of the backward pass": "#7a6bc9", "values of the update": "#a79be0",
    "moved back from slower memory": "#2f80c2", "workspace": "#c2557f",
  },
  dark: {
    "held beside this graph": "#36424e", "parameters": "#8497a9", "optimizer state": "#62727f",
    "batch and buffers": "#49565f", "gradients of parameters": "#d9a949",
    "activations": "#3aaea4", "activations made again": "#e57e50",
    "values of the backward pass": "#9589e6", "values of the update": "#6f65ab",
    "moved back from slower memory": "#57a8e6", "workspace": "#de7fa5",
  },
};

function colourOf(content) { return COLOURS[DARK.matches ? "dark" : "light"][content]; }

/** Shades of one colour, for groups of layers in the order in which they run. */
function shade(colour, number, count) {
  if (count < 2) return colour;
  const part = number / (count - 1), other = DARK.matches ? [18, 40, 46] : [205, 232, 228];
  const own = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  const mixed = own.map((value, i) => Math.round(value + 0.72 * part * (other[i] - value)));
  return `rgb(${mixed.join(",")})`;
}

function variable(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "style") made.style.cssText = value;
    else made[name] = value;
  }
  made.append(...children);
  return made;
}

function fill(id, ...children) { document.getElementById(id).replaceChildren(...children); }
