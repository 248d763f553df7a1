// Refreshes a page while it is visible, and shows when it was read or why it could not be.

import { followTheme } from "./airflow.js";
import { fill, h } from "./dom.js";
import { moment } from "./format.js";
import { notice } from "./chips.js";

const REFRESH_INTERVAL = 8000; // milliseconds

/**
 * Keep ``place`` filled: ``readAll`` reads what the page shows, ``draw`` makes elements of it. Of two concurrent reads
 * the later one wins. While none succeeds, what was read before is shown as that: without colours, and without buttons.
 * Returns ``refresh``, which reads now, and ``show``, which draws the last result again.
 */
export function readings(place, readAll, draw) {
  let shown = null;
  let failure = null; // its message, and since when
  let lastRead = 0;
  let running = 0;

  function show() {
    if (!shown && !failure) return;
    const problems = [
      failure && notice("bad", failure.message, ` Since ${moment(failure.since)}.`, shown && h("b", {}, lastKnown(shown))),
      shown?.problems.map((line) => notice("bad", line)),
    ];
    fill(place, problems, shown && h(failure ? "div.last-known" : "div", {}, draw(shown, failure), footer(shown.at)));
    if (!failure) return;
    for (const button of place.querySelectorAll("button")) {
      button.disabled = true;
      button.title = failure.message;
    }
  }

  async function refresh() {
    const thisRead = ++lastRead;
    running++;
    place.ariaBusy = "true";
    try {
      const answer = { ...(await readAll(shown)), at: new Date().toISOString() };
      if (thisRead !== lastRead) return;
      shown = answer;
      failure = null;
    } catch (error) {
      if (thisRead !== lastRead) return;
      failure = { message: error.message, since: failure?.since ?? new Date().toISOString() };
    } finally {
      running--;
      place.ariaBusy = String(running > 0);
    }
    show();
  }

  /** Not while a read is running: a server slower than the interval would never get to answer. */
  const refreshIfVisible = () => document.hidden || running || refresh();

  followTheme();
  document.addEventListener("visibilitychange", refreshIfVisible);
  setInterval(refreshIfVisible, REFRESH_INTERVAL);
  return { refresh, show };
}

const lastKnown = ({ at }) => ` Everything below is last known, as it was at ${moment(at)}.`;

const footer = (at) => h("footer.soft", {}, `Read at ${moment(at)}; refreshes every ${REFRESH_INTERVAL / 1000} s.`);
