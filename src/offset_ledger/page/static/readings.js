// Reading again and again while somebody looks, and what both pages say about it.

import { followTheme } from "./airflow.js";
import { fill, h } from "./dom.js";
import { moment } from "./format.js";
import { notice } from "./views.js";

const EVERY = 8000; // milliseconds between two readings

/**
 * Keep ``place`` filled: ``readAll`` reads what is on view, ``draw`` makes elements of it. Of two readings under way
 * the one begun later wins. Returns ``refresh``, which reads at once, and ``show``, which draws what was read last.
 */
export function readings(place, readAll, draw) {
  let shown = null;
  let failure = null;
  let turn = 0;
  let underWay = 0;

  function show() {
    const problems = [
      failure && notice("bad", failure, shown && ` What is shown is from ${moment(shown.at)}.`),
      shown?.problems.map((line) => notice("bad", line)),
    ];
    fill(place, problems, shown && [draw(shown), footer(shown.at)]);
  }

  async function refresh() {
    const mine = ++turn;
    underWay++;
    try {
      const found = { ...(await readAll(shown)), at: new Date().toISOString() };
      if (mine !== turn) return;
      shown = found;
      failure = null;
    } catch (error) {
      if (mine !== turn) return;
      failure = error.message;
    } finally {
      underWay--;
    }
    show();
  }

  /** Only when the last one has come: a server slower than this clock would never be heard out. */
  const again = () => document.hidden || underWay || refresh();

  followTheme();
  document.addEventListener("visibilitychange", again);
  setInterval(again, EVERY);
  return { refresh, show };
}

const footer = (at) => h("footer.soft", {}, `Read at ${moment(at)}; reads itself again every ${EVERY / 1000} s.`);

/** What the address names after #, by its slashes; nothing where it cannot be decoded. */
export function addressed() {
  try {
    return decodeURIComponent(location.hash.slice(1)).split("/");
  } catch {
    return [""];
  }
}

/** The pipeline that the address names first, or the only one there is. */
export function named(pipelines) {
  const [name] = addressed();
  const only = pipelines.length === 1 ? pipelines[0] : undefined;
  return pipelines.find((p) => p.name === name) ?? only;
}
