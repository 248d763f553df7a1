// The header of one pipeline: its condition, metrics, problems and buttons.

import { airflowLink, runPath } from "./airflow.js";
import { rejection } from "./rejection.js";
import { blockedReason, chip, notice, stateChip } from "./chips.js";
import { decide, redrive, replay, report } from "./dialogs.js";
import { h } from "./dom.js";
import { ago, bytes, duration, moment, number, plural, share, since } from "./format.js";

const lag = (p) => (p.retired ? "–" : p.totals.lag === null ? "not known" : plural(p.totals.lag, "record"));

export function dataLossDeadline(p) {
  if (p.retired) return "–";
  if (!p.retention) return "not known";
  if (p.totals.cut_off) return "not known";
  if (p.totals.lag === 0) return h("span.soft", {}, "no lag");
  const bySize = p.retention.bytes !== null && `by size, at ${bytes(p.retention.bytes)}`;
  const ways = [p.retention.age !== null && "by age", bySize].filter(Boolean).join(" or ");
  if (!ways) return "never";
  const at = p.totals.gone_after;
  if (!at) return bySize || "not known";
  const left = -since(at);
  const title = `from ${moment(at)} on, ${ways}`;
  const dated = p.dated_long_ago && h("span.soft", {}, ` ${datedSince(p)}`);
  return h("span", { title }, left > 0 ? `in ${duration(left)}` : "at any moment", dated);
}

function tombstoneDeadline(p) {
  const at = p.totals.tombstones_after;
  const left = -since(at);
  return h("span", { title: `from ${moment(at)} on` }, left > 0 ? `in ${duration(left)}` : "at any moment");
}

const datedSince = (p) => `records dated ${moment(p.totals.complete_to, { zone: false }).slice(0, 10)}`;

/** How long pending records have been waiting; timestamps of long ago say nothing about that. */
export function behind(p) {
  if (p.retired) return ["–"];
  const at = p.totals.complete_to;
  if (!at || p.totals.lag === null) return ["not known"];
  if (!p.totals.lag) return ["nothing"];
  return p.dated_long_ago ? ["no estimate", ` ${datedSince(p)}`] : [duration(Math.max(0, since(at)))];
}

/** The share that the last batch refused, and the one up to which the gate passes a batch. */
export const refusedShare = (p) => `${share(p.quarantined_share)} (limit ${share(p.max_quarantined_share)})`;

/** One pipeline above its partitions: condition, metrics, problems, and the buttons. */
export function head(p, several, refresh) {
  const back = several && h("a.soft", { href: "#", "data-key": "back" }, "All pipelines");
  return [
    h(
      "div.head",
      {},
      h(
        "div",
        {},
        back,
        h("h1", {}, p.name, " ", chip(p.condition.level, p.condition.text)),
        h("div.soft", {}, `${p.topic} → ${p.target}`, p.description && ` · ${p.description}`),
      ),
      buttons(p, refresh),
    ),
    notices(p, refresh),
    h(
      "dl.metrics.card",
      {},
      metrics(p).map(([name, value, more]) =>
        h("div", {}, h("dt", {}, name), h("dd", {}, value, more && h("span.of", {}, more))),
      ),
    ),
  ];
}

function buttons(p, refresh) {
  const button = (name, verb, act) => {
    const { blocked_reason } = p.actions[verb];
    return h("button", { onclick: act, disabled: Boolean(blocked_reason), title: blocked_reason, "data-key": name }, name);
  };
  return h(
    "div",
    {},
    h(
      "div.buttons",
      {},
      p.report && h("button", { onclick: () => report(p.report), "data-key": "quality" }, "Quality report"),
      button("Replay…", "ingest", () => replay(p, refresh)),
      button("Redrive…", "redrive", () => redrive(p, refresh)),
    ),
    Object.values(p.actions).map(blockedReason),
  );
}

function metrics(p) {
  const at = p.totals.complete_to;
  const more = p.quarantined > p.quarantine_counted;
  const open = p.open_batch;
  const link = open?.dag_id && open.run_id && h("a", airflowLink(runPath(open.dag_id, open.run_id)), "run");
  return [
    ["Lag", lag(p)],
    ["Behind in time", ...behind(p)],
    ["Complete up to", at ? h("span", { title: moment(at) }, moment(at, { seconds: false })) : p.retired ? "–" : "not known"],
    ["Data-loss deadline", dataLossDeadline(p)],
    ...(p.totals.tombstones_after ? [["Tombstone deadline", tombstoneDeadline(p)]] : []),
    ["Last batch refused", refusedShare(p), p.judged_batch && ` batch ${p.judged_batch}`],
    [
      "In quarantine",
      more ? `> ${number(p.quarantine_counted)}` : number(p.quarantined),
      p.dismissed ? ` unresolved, ${number(p.dismissed)} dismissed` : " unresolved",
    ],
    [
      "Open batch",
      open ? [`${open.batch_id} `, stateChip(open.state)] : "none",
      open && [` ${ago(open.planned_at)} `, link],
    ],
  ];
}

function notices(p, refresh) {
  const open = p.open_batch;
  const { blocked_reason } = p.actions.ingest;
  const act = (action) =>
    h(
      "button",
      {
        onclick: () => decide(p, action, open.batch_id, refresh),
        disabled: Boolean(blocked_reason),
        title: blocked_reason,
        "data-key": `notice-${action}`,
      },
      action === "approve" ? "Approve…" : "Abandon…",
    );
  return [
    p.ledger_problem && notice("unknown", "The ledger cannot be read. ", p.ledger_problem),
    p.retired && notice("plain", p.retired),
    p.broker_problem &&
      !p.retired &&
      notice(
        p.topic_gone ? "bad" : "unknown",
        p.topic_gone
          ? "The topic does not exist on the cluster. "
          : "Lag and deadlines are not known; the log is shown as the last batches saw it. ",
        p.broker_problem,
      ),
    p.registry_problem && notice("unknown", "No batch can be decoded until the schema registry answers. ", p.registry_problem),
    p.totals.lost > 0 &&
      notice(
        "bad",
        `${plural(p.totals.lost, "offset")} above the cursors were deleted by retention before they were read. Runs fail until the loss is approved.`,
      ),
    p.silence && notice("unknown", "Its task may have ended: ", p.silence),
    p.rejection && rejection(p, act),
  ];
}
