// Tables that become a list of cards where the window is narrow.

import { h } from "./dom.js";

/** A table in a card: its class besides ``stacks``, the names of its columns, and rows. */
export function table(name, columns, rows) {
  const heads = columns.map((column) => h("th", {}, column));
  return h(
    "div.card.scroll",
    {},
    h(`table.stacks.${name}`, {}, h("thead", {}, h("tr", {}, heads)), h("tbody", {}, rows)),
  );
}

/** A row with one value in each column; ``cells`` are the elements they stand in. */
export function row(columns, cells, values, attributes = {}) {
  return h(
    "tr",
    attributes,
    columns.map((column, n) => h(cells[n], { "data-label": column }, values[n])),
  );
}
