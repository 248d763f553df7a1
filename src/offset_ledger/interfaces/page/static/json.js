// JSON documents as people read them.

import { h } from "./dom.js";

const TOKENS = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;
const PLAIN = /^[A-Za-z0-9_-]+$/; // a name that a path has without quotes

/**
 * The document with a line for each value, and those at the ``paths`` marked; null where the text is none, or has no
 * members. Numbers, names that are there twice and escapes stay as they are written.
 */
export function indented(text, paths) {
  try {
    JSON.parse(text);
    const tokens = text.match(TOKENS);
    return /[{[]/.test(tokens[0]) ? value(tokens[Symbol.iterator](), "$", "", new Set(paths)) : null;
  } catch {
    return null; // or too deep
  }
}

function value(tokens, path, indent, marked, token = tokens.next().value) {
  const parts = token === "{" || token === "[" ? members(tokens, token, path, indent, marked) : [token];
  return marked.has(path) ? [h("mark", {}, parts)] : parts;
}

function members(tokens, open, path, indent, marked) {
  const close = open === "{" ? "}" : "]";
  const [parts, deeper] = [[open], `${indent}  `];
  for (let token = tokens.next().value, place = 0; token !== close; token = tokens.next().value) {
    if (token === ",") {
      parts.push(",");
      token = tokens.next().value;
    }
    parts.push(`\n${deeper}`);
    if (open === "[") {
      parts.push(...value(tokens, `${path}[${place++}]`, deeper, marked, token));
      continue;
    }
    tokens.next(); // the colon
    parts.push(token, ": ", ...value(tokens, path + step(JSON.parse(token)), deeper, marked));
  }
  return [...parts, parts.length > 1 && `\n${indent}`, close];
}

const step = (name) => (PLAIN.test(name) ? `.${name}` : `['${name.replace(/['\\]/g, "\\$&")}']`);
