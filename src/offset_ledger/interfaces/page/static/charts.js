// The charts of a pipeline: the balance sheets of its newest batches, and records, lag and quarantine over time.

import { number, share } from "./format.js";
import { plot, stacked } from "./plots.js";
import { SHEET } from "./sheet.js";

/** The balance sheets of two batches or more, the oldest left; a click opens a batch. */
export function sheetChart(pipeline, batches, open) {
  const shown = batches.filter((batch) => batch.sheet).toReversed();
  if (shown.length < 2) return null;
  const used = SHEET.filter((name) => shown.some((batch) => batch.sheet[name]));
  const series = used.map((name) => ({ label: name, colour: name, kind: "bars", value: number }));
  const largest = Math.max(...shown.map((batch) => batch.offsets));
  const parts = ({ sheet }) => used.filter((name) => sheet[name]).map((name) => `${number(sheet[name])} ${name}`);
  return plot(`sheets-${pipeline.name}`, {
    title: "Balance sheets of the batches below",
    note: `largest ${number(largest)} offsets`,
    under: (n) => `batch ${shown[n].batch_id}: ${parts(shown[n]).join(", ")}`,
    unit: "offsets",
    time: false,
    width: `max(32rem, ${8 + 5 * shown.length}rem)`,
    x: shown.map((_, n) => n),
    label: (n) => (shown[n] ? `${shown[n].batch_id}` : ""),
    click: (n) => open(shown[n].batch_id),
    ...stacked(series, used.map((name) => shown.map((batch) => batch.sheet[name]))),
  });
}

/** Records, lag and quarantined share over time, from the first batch in the window. */
export function charts(pipeline, history) {
  const [first, second] = history.map((p) => Date.parse(p.at) / 1000);
  const begin = history.findIndex((p) => p.head || p.again || p.lag !== null || p.quarantined_share !== null);
  const points = history.slice(Math.max(0, begin));
  const x = points.map((p) => Date.parse(p.at) / 1000);
  const time = { x, range: [x[0] - (second - first), x.at(-1) + (second - first)] };
  return [records(pipeline, points, time), lag(pipeline, points, time), quarantined(pipeline, points, time)];
}

function records(pipeline, points, time) {
  const series = [
    { label: "read", colour: "inserted", kind: "bars", value: number },
    { label: "read again", colour: "again", kind: "bars", value: number },
  ];
  const sum = points.reduce((all, p) => all + p.head + p.again, 0);
  return plot(`records-${pipeline.name}`, {
    title: "Records of committed batches",
    note: `${number(sum)} in all`,
    unit: "records",
    ...time,
    ...stacked(series, [points.map((p) => p.head || null), points.map((p) => p.again || null)]),
  });
}

/** When batches were planned, what they left, and now. */
function lag(pipeline, points, time) {
  const now = pipeline.totals.lag;
  const nothing = points.map(() => null);
  return plot(`lag-${pipeline.name}`, {
    title: "Lag",
    note: pipeline.retired ? "the topic is gone" : now === null ? "now: not known" : `now ${number(now)}`,
    unit: "records",
    range: time.range,
    x: [...time.x, Date.now() / 1000],
    series: [
      { label: "when planned", colour: "waiting", kind: "line", value: number },
      { label: "left by the batch", colour: "committed", kind: "line", value: number },
      { label: "now", colour: "ink", kind: "line", value: number },
    ],
    values: [[...points.map((p) => p.lag), null], [...points.map((p) => p.lag_after), null], [...nothing, now]],
  });
}

function quarantined(pipeline, points, time) {
  const limit = pipeline.max_quarantined_share;
  const known = points.map((p) => p.quarantined_share).filter((part) => part !== null);
  const [from, to] = time.range; // the limit is a line also where one step has a batch
  return plot(`quarantined-${pipeline.name}`, {
    title: "Quarantined share of a batch",
    note: known.length ? `highest ${share(Math.max(...known))}, limit ${share(limit)}` : `limit ${share(limit)}`,
    unit: "share of the records",
    format: share,
    range: time.range,
    x: [from, ...time.x, to],
    series: [
      { label: "highest", colour: "quarantined", kind: "bars", value: share },
      { label: "limit", colour: "lost", kind: "limit", value: share },
    ],
    values: [[null, ...points.map((p) => p.quarantined_share), null], [limit, ...points.map(() => limit), limit]],
  });
}

