// Small words in colour, and lines above everything else.

import { h } from "./dom.js";

const STATE_LEVEL = { committed: "good", rejected: "bad", abandoned: "plain" };

export const chip = (level, text) => h(`span.chip.${level}`, {}, text);
export const stateChip = (state) => chip(STATE_LEVEL[state] ?? "info", state);

/** A line above everything else. */
export const notice = (level, ...text) => h(`p.notice.${level}`, { role: "status" }, text);
