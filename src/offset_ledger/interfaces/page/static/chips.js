// Small words in colour, and lines above everything else.

import { airflowLink } from "./airflow.js";
import { h } from "./dom.js";

const STATE_LEVEL = { committed: "good", rejected: "bad", abandoned: "plain" };

export const chip = (level, text) => h(`span.chip.${level}`, {}, text);
export const stateChip = (state) => chip(STATE_LEVEL[state] ?? "info", state);

/** A line above everything else. */
export const notice = (level, ...text) => h(`p.notice.${level}`, { role: "status" }, text);

/** Why a DAG cannot be triggered; one that is there and paused is linked, since its switch is on its own page. */
export function blockedReason({ dag_id, blocked_reason }) {
  if (!blocked_reason) return null;
  const text = blocked_reason.startsWith(dag_id)
    ? [h("a", airflowLink(`dags/${dag_id}`), dag_id), blocked_reason.slice(dag_id.length)]
    : blocked_reason;
  return h("div.soft.blocked-reason", {}, text);
}
