// Elements without markup in strings: nothing from the ledger is ever parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";

/** h("td.num", {title: "…", onclick: f}, child, …): an element; null, undefined and false children are left out. */
export function h(spec, attributes = {}, ...children) {
  return build((tag) => document.createElement(tag), spec, attributes, children);
}

/** The same for the elements of a picture. */
export function svg(spec, attributes = {}, ...children) {
  return build((tag) => document.createElementNS(SVG, tag), spec, attributes, children);
}

function build(make, spec, attributes, children) {
  const [tag, ...classes] = spec.split(".");
  const element = make(tag);
  if (classes.length) element.setAttribute("class", classes.join(" "));
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(
    ...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false),
  );
  return element;
}

/** Put new children into an element: what is folded out stays so, and what had the focus has it (by its data-key). */
export function fill(element, ...children) {
  const key = document.activeElement?.dataset?.key;
  const unfolded = [...element.querySelectorAll("details[open]")].map((e) => e.dataset.fold);
  const scrolled = new Map([...element.querySelectorAll("[data-scroll]")].map((e) => [e.dataset.scroll, e.scrollTop]));
  element.replaceChildren(...children.flat(Infinity).filter(Boolean));
  for (const e of element.querySelectorAll("[data-scroll]")) e.scrollTop = scrolled.get(e.dataset.scroll) ?? 0;
  for (const e of element.querySelectorAll("details")) e.open = unfolded.includes(e.dataset.fold);
  if (key) focusOn(element, key);
}

/** Give the focus to what has this data-key. */
export function focusOn(place, key) {
  [...place.querySelectorAll("[data-key]")].find((e) => e.dataset.key === key)?.focus({ preventScroll: true });
}

/** The list without the item, or with it if it was not there. */
export const toggled = (all, item) => (all.includes(item) ? all.filter((each) => each !== item) : [...all, item]);
