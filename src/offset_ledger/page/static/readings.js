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

  function show() {
    const problems = [
      failure && notice("bad", failure, shown && ` What is shown is from ${moment(shown.at)}.`),
      shown?.problems.map((line) => notice("bad", line)),
    ];
    fill(place, problems, shown && [draw(shown), footer(shown.at)]);
  }

  async function refresh() {
    const mine = ++turn;
    try {
      const found = { ...(await readAll(shown)), at: new Date().toISOString() };
      if (mine !== turn) return;
      shown = found;
      failure = null;
    } catch (error) {
      if (mine !== turn) return;
      failure = error.message;
    }
    show();
  }

  followTheme();
  document.addEventListener("visibilitychange", () => document.hidden || refresh());
  setInterval(() => document.hidden || refresh(), EVERY);
  return { refresh, show };
}

const footer = (at) => h("footer.soft", {}, `Read at ${moment(at)}; reads itself again every ${EVERY / 1000} s.`);

/** The pipeline that the address names after #, up to a slash, or the only one there is. */
export function named(pipelines) {
  const [name] = decodeURIComponent(location.hash.slice(1)).split("/");
  const only = pipelines.length === 1 ? pipelines[0] : undefined;
  return pipelines.find((p) => p.name === name) ?? only;
}
