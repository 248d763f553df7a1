// Numbers and times as people read them, in the time zone that is set in Airflow.

const NONE = "–";

/** The time zone that is set in Airflow. */
export function timeZone() {
  try {
    const zone = JSON.parse(localStorage.getItem("timezone") ?? '"UTC"');
    return new Intl.DateTimeFormat("en", { timeZone: zone === "local" ? undefined : zone }).resolvedOptions().timeZone;
  } catch {
    return "UTC"; // a zone that this browser does not know
  }
}

export const number = (value) => (value === null || value === undefined ? NONE : value.toLocaleString("en-US"));

/** In three digits, for an axis: 12.3 k, 1.2 M. */
export function compact(value) {
  if (value === null || value === undefined) return NONE;
  const text = new Intl.NumberFormat("en-US", { notation: "compact", maximumSignificantDigits: 3 }).format(value);
  return text.replace(/(\d)([KMBT])$/, (_, digit, unit) => `${digit} ${unit === "K" ? "k" : unit}`);
}

/** A share in percent; a small one is never shown as none. */
export function share(value) {
  if (value === null || value === undefined) return NONE;
  if (value > 0 && value < 0.0001) return "< 0.01%";
  return `${Number((value * 100).toFixed(2))}%`;
}

/** 2026-11-21 14:05:09 UTC */
export function moment(iso, { seconds = true, zone = true } = {}) {
  if (!iso) return NONE;
  const options = { dateStyle: "short", timeStyle: seconds ? "medium" : "short", timeZone: timeZone() };
  const text = new Intl.DateTimeFormat("sv-SE", options).format(new Date(iso));
  return zone ? `${text} ${zoneName(iso)}` : text;
}

/** A tick of a time axis: the day at midnight and for long steps, else the time. */
export function tick(seconds, step) {
  const text = moment(new Date(seconds * 1000).toISOString(), { seconds: false, zone: false });
  const [day, time] = [text.slice(5, 10), text.slice(11)];
  return step >= 86400 ? day : time === "00:00" ? day : time;
}

function zoneName(iso) {
  const parts = new Intl.DateTimeFormat("en-US", { timeZone: timeZone(), timeZoneName: "short" }).formatToParts(
    new Date(iso),
  );
  return parts.find((part) => part.type === "timeZoneName").value;
}

const UNITS = [
  ["d", 86400],
  ["h", 3600],
  ["min", 60],
];

/** Seconds as one or two units: < 0.1 s, 4.2 s, 3 min, 5 h 20 min, 12 d. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return NONE;
  if (seconds < 0.05) return "< 0.1 s";
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const place = UNITS.findIndex(([, size]) => seconds >= size);
  const [unit, size] = UNITS[place];
  const whole = Math.floor(seconds / size);
  const [smaller, part] = UNITS[place + 1] ?? ["s", 1];
  const rest = Math.floor((seconds - whole * size) / part);
  return rest && whole < 10 ? `${whole} ${unit} ${rest} ${smaller}` : `${whole} ${unit}`;
}

/** Seconds from then to now; below 0 where it is still to come. */
export const since = (iso) => (Date.now() - new Date(iso).getTime()) / 1000;

export const ago = (iso) => (iso ? (since(iso) < 10 ? "just now" : `${duration(since(iso))} ago`) : NONE);

export const plural = (count, one, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;

/** Bytes with a unit. */
export function bytes(count) {
  const place = count ? Math.min(4, Math.floor(Math.log(count) / Math.log(1024))) : 0;
  return `${Number((count / 1024 ** place).toFixed(1))} ${["B", "KiB", "MiB", "GiB", "TiB"][place]}`;
}

/** partition:[from, until), without commas inside the numbers. */
export const range = (r) => `${r.partition}:[${r.from_offset}, ${r.until_offset})`;
