// What the page shows is in its address and, in a frame, in Airflow's own: to read it again, and to give it to others.

const outer = window.parent === window ? null : window.parent;

/** The address without its fragment. */
const place = ({ pathname, search }) => pathname + search;

/** The names in the fragment, split at slashes; empty if it cannot be decoded. */
export function addressed() {
  try {
    return decodeURIComponent(location.hash.slice(1).split("?")[0]).split("/");
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

/** The view of the address: ``initial``, texts and lists of texts by name, but for what the address says. */
export function addressedView(initial) {
  const said = new URLSearchParams(location.hash.split("?")[1]);
  const value = (name) => (Array.isArray(initial[name]) ? said.get(name).split(",") : said.get(name));
  return Object.fromEntries(Object.keys(initial).map((name) => [name, said.has(name) ? value(name) : initial[name]]));
}

/** Let the address say how the view differs from ``initial``. */
export function address(view, initial) {
  const said = new URLSearchParams();
  for (const name of Object.keys(initial)) if (`${view[name]}` !== `${initial[name]}`) said.set(name, view[name]);
  write(location.hash.slice(1).split("?")[0], said.size ? `?${said}` : "");
}

/** Let the address name the pipeline that is shown, also while it is the only one. */
export function nameShown({ name }) {
  const [first, ...rest] = addressed();
  const [, said] = location.hash.split("?");
  if (first !== name) write([encodeURIComponent(name), ...rest].join("/"), said ? `?${said}` : "");
}

function write(names, said) {
  const fragment = names || said ? `#${names}${said}` : "";
  history.replaceState(history.state, "", place(location) + fragment);
  outer?.history.replaceState(outer.history.state, "", place(outer.location) + fragment);
}

/** Call ``changed`` whenever the address names another view; of two that differ, Airflow's is the one that a person gave. */
export function followAddress(changed) {
  addEventListener("hashchange", changed);
  if (!outer) return;
  const follow = () => location.replace(outer.location.hash || "#");
  outer.addEventListener("hashchange", follow);
  addEventListener("pagehide", () => outer.removeEventListener("hashchange", follow));
  if (outer.location.hash) history.replaceState(history.state, "", place(location) + outer.location.hash);
}
