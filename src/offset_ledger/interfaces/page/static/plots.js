// Charts with axes, units and limits, drawn by uPlot. A chart is kept from one reading to the next, so that what the
// pointer shows stays. uPlot needs no build, and sets styles through the DOM, which the content security policy allows.

import { h } from "./dom.js";
import { compact, moment, tick, timeZone } from "./format.js";
import uPlot from "./vendor/uPlot-1.6.32.esm.js";

const HEIGHT = 190;
const FONT = "11px Inter, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif";
const kept = new Map();

const probe = document.createElement("i");

/** A canvas does not know light-dark(): the colour of the theme as an element has it. */
function colour(name) {
  if (!probe.isConnected) document.body.append(probe);
  probe.style.color = `var(--${name})`;
  return getComputedStyle(probe).color;
}

/**
 * A figure. ``chart``: title, unit, series (label, colour, kind: bars, line or limit; value formats it), x values and a
 * row of values for each series; ``time``: whether x is seconds since 1970, else ``label`` names a place; ``range``:
 * the ends of the axis of times; ``under`` says what the pointer shows, if no legend does; ``width``: of the figure.
 */
export function plot(key, chart) {
  const shape = JSON.stringify([chart.title, chart.series.map((each) => [each.label, each.kind])]);
  let entry = kept.get(key);
  if (entry?.shape !== shape) {
    entry?.destroy();
    kept.set(key, (entry = begin(shape)));
  }
  entry.update(chart);
  queueMicrotask(forget);
  return entry.figure;
}

/** Charts that are no longer shown. */
function forget() {
  for (const [key, entry] of kept)
    if (!entry.figure.isConnected) {
      entry.destroy();
      kept.delete(key);
    }
}

function begin(shape) {
  const title = h("span", {});
  const note = h("b.num", {});
  const place = h("div.plot", { role: "img" });
  const figure = h("figure.chart.card", {}, h("figcaption", {}, title, note), place);
  let drawn = null;
  let shown = null;
  const size = () => ({ width: Math.max(place.clientWidth, 120), height: HEIGHT });
  const draw = () => {
    drawn?.destroy();
    drawn = new uPlot(options(() => shown, size(), say), [shown.x, ...shown.values], place);
  };
  const observer = new ResizeObserver(() => {
    if (!place.clientWidth) return;
    if (drawn) drawn.setSize(size());
    else draw();
  });
  observer.observe(place);
  const say = (at) => (note.textContent = shown.under && at !== null && at !== undefined ? shown.under(at) : shown.note);
  function update(chart) {
    shown = chart;
    title.textContent = chart.title;
    say(drawn?.cursor.idx);
    figure.style.maxWidth = chart.width ?? "";
    place.setAttribute("aria-label", `${chart.title}. ${chart.note}`);
    drawn?.setData([chart.x, ...chart.values]);
  }
  const redraw = () => drawn && draw(); // uPlot keeps the colours of the legend
  window.addEventListener("themechange", redraw);
  function destroy() {
    observer.disconnect();
    window.removeEventListener("themechange", redraw);
    drawn?.destroy();
  }
  return { shape, figure, update, destroy };
}

function options(chart, size, say) {
  const { time = true, format = compact, click } = chart();
  const axis = { stroke: () => colour("soft"), font: FONT, ticks: { show: false }, grid: { stroke: () => colour("line"), width: 1 } };
  const splits = time ? {} : { splits: (u) => places(u.data[0]) };
  const names = time
    ? (_, all, __, ___, step) => all.map((at) => tick(at, step))
    : (_, all) => all.map((at) => chart().label(at));
  return {
    ...size,
    tzDate: (at) => uPlot.tzDate(new Date(at * 1000), timeZone()),
    padding: [8, 20, 0, 0], // on the right half of a tick's label
    scales: {
      x: { time, range: (_, from, to) => (time ? chart().range : [from - 0.6, to + 0.6]) },
      y: { range: () => [0, top(chart())] },
    },
    axes: [
      { ...axis, ...splits, values: names, space: 70, size: 30, grid: { show: false } },
      { ...axis, values: (_, all) => all.map((value) => (value === null ? "" : format(value))), size: 62, label: chart().unit, labelFont: FONT, labelSize: 16 },
    ],
    series: [{ value: (_, at) => (at === null ? "" : moment(new Date(at * 1000).toISOString(), { seconds: false })), label: "Time" }, ...chart().series.map((each, n) => drawnAs(each, n, chart))],
    cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
    legend: { show: time },
    hooks: {
      ready: [(u) => click && u.over.addEventListener("click", () => u.cursor.idx !== null && click(u.data[0][u.cursor.idx]))],
      setCursor: [(u) => say(u.cursor.idx)],
    },
  };
}

/** The top of the chart, above its values; above a limit too, unless that would make the values small. */
function top({ series, values }) {
  const largest = (wanted) => Math.max(0, ...values.filter((_, n) => (series[n].kind === "limit") === wanted).flat());
  const [value, limit] = [largest(false), largest(true)];
  return (value && limit > 4 * value ? value : Math.max(value, limit) || 1) * 1.1;
}

/** At most a dozen of the values. */
function places(all) {
  const every = Math.ceil(all.length / 12);
  return all.filter((_, n) => n % every === 0);
}

function drawnAs({ label, colour: name, kind, value }, n, chart) {
  const stroke = () => colour(name);
  const shown = (_, number, __, at) => {
    const own = chart().own?.[n][at];
    const given = own === undefined ? number : own;
    return given === null || given === undefined ? "" : (value ?? compact)(given);
  };
  const common = { label, stroke, value: shown, points: { show: false } };
  if (kind === "bars") return { ...common, fill: stroke, width: 0, paths: uPlot.paths.bars({ size: [0.8, 60] }) };
  if (kind === "limit") return { ...common, width: 1.5, dash: [6, 4] };
  return { ...common, width: 2, spanGaps: true, points: { show: true, size: 4, fill: stroke } };
}

/** Rows on top of each other: the last is drawn first and reaches to the sum. ``own`` has what each counts by itself. */
export function stacked(series, rows) {
  const sums = rows.map((_, n) => rows[0].map((__, at) => rows.slice(0, n + 1).reduce((sum, row) => sum + (row[at] ?? 0), 0)));
  return { series: series.toReversed(), values: sums.toReversed(), own: rows.toReversed() };
}
