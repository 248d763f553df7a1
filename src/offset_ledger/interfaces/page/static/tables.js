// Tables that become a list of cards where the window is narrow.

import { h } from "./dom.js";

/** The heads of columns; those in ``numeric`` stand on the right, over their numbers. */
export const heads = (columns, numeric = []) =>
  h(
    "thead",
    {},
    h(
      "tr",
      {},
      columns.map((column) => h(numeric.includes(column) ? "th.num" : "th", { scope: "col" }, column)),
    ),
  );

/** A table in a card: its class besides ``stacks``, the names of its columns, and rows. */
export function table(name, columns, rows, numeric = []) {
  return h(
    "div.card.scroll",
    { tabindex: 0, role: "region", "aria-label": name },
    h(`table.stacks.${name.replaceAll(" ", "-")}`, {}, heads(columns, numeric), h("tbody", {}, rows)),
  );
}

/** A click anywhere in a row opens it, as its button or link does; not a click on another control or to select text. */
function open({ target, currentTarget }) {
  if (!target.closest("a, button, summary") && getSelection().isCollapsed) currentTarget.querySelector(OPENS)?.click();
}

const OPENS = "button.toggle, a.name";

/** A row with one value in each column; ``cells`` are the elements they stand in. */
export function row(columns, cells, values, attributes = {}) {
  return h(
    "tr",
    { ...attributes, onclick: open },
    columns.map((column, n) => h(cells[n] ?? "td", { "data-label": column }, values[n])),
  );
}
