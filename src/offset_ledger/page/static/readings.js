// Refreshes a page while it is visible, and shows when it was read or why it could not be.

import { followTheme } from "./airflow.js";
import { fill, h } from "./dom.js";
import { moment } from "./format.js";
import { notice } from "./chips.js";

const REFRESH_INTERVAL = 8000; // milliseconds

/**
 * Keep ``place`` filled: ``readAll`` reads what the page shows, ``draw`` makes elements of it. Of two concurrent reads
 * the later one wins. Returns ``refresh``, which reads now, and ``show``, which draws the last result again.
 */
export function readings(place, readAll, draw) {
  let shown = null;
  let failure = null;
  let lastRead = 0;
  let running = 0;

  function show() {
    if (!shown && !failure) return;
    const problems = [
      failure && notice("bad", failure, shown && ` The data below is from ${moment(shown.at)}.`),
      shown?.problems.map((line) => notice("bad", line)),
    ];
    fill(place, problems, shown && [draw(shown), footer(shown.at)]);
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
      failure = error.message;
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

const footer = (at) => h("footer.soft", {}, `Read at ${moment(at)}; refreshes every ${REFRESH_INTERVAL / 1000} s.`);
