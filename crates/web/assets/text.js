// Texts, numbers and moments in the form that a person reads, and elements made of them.
//
// All that comes from a fleet (texts, reasons, names) is hostile. It becomes text nodes and nothing
// else; this page does not use innerHTML.

/** Characters that could hide, reorder or break a text: the same as in `baton_protocol::text`. */
const UNSAFE =
  /[\p{Cc}\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;
/** At most this many unsafe characters of a text get an element of their own. */
const MAX_TOKENS = 2000;

/** An element with properties and children; a string among the children becomes text. */
export function el(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "class") element.className = value;
    else if (name.includes("-") || name === "role") element.setAttribute(name, value);
    else element[name] = value;
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

/** The element of the page with this id. */
export const byId = (id) => document.getElementById(id);

/** The text of nodes and strings. */
export const textOf = (parts) => parts.map((part) => part.textContent ?? part).join("");

/** Sets a text if it has changed. A screen reader would read out an unchanged text again, and the
 * user's selection would be lost. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Names of the control characters: few fonts have Unicode's symbols for them. */
const CONTROLS = (
  "NUL SOH STX ETX EOT ENQ ACK BEL BS TAB LF VT FF CR SO SI " +
  "DLE DC1 DC2 DC3 DC4 NAK SYN ETB CAN EM SUB ESC FS GS RS US"
).split(" ");

function nameOf(char) {
  const code = char.codePointAt(0);
  if (code === 0x7f) return "DEL";
  return CONTROLS[code] ?? `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
}

function escape(char) {
  const code = char.codePointAt(0);
  const short = { 9: "\\t", 10: "\\n", 13: "\\r" }[code];
  const byte = code < 0x80 && `\\x${code.toString(16).padStart(2, "0")}`;
  return short || byte || `\\u{${code.toString(16)}}`;
}

/** Whether a text has unsafe characters. */
export const isUnsafe = (text) => text.search(UNSAFE) >= 0;

/** A text with its unsafe characters as escapes, on one line. */
export const escaped = (text) => text.replace(UNSAFE, escape);

/** The same, but line breaks and tabs stay. */
export const escapedLines = (text) =>
  text.replace(UNSAFE, (char) => (char === "\n" || char === "\t" ? char : escape(char)));

/** DOM nodes of a text, in which each unsafe character is a marked name. */
export function safeNodes(text, { lines = false } = {}) {
  const nodes = [];
  let from = 0;
  for (const found of text.matchAll(UNSAFE)) {
    const char = found[0];
    if (lines && (char === "\n" || char === "\t")) continue;
    if (nodes.length > MAX_TOKENS) break;
    if (found.index > from) nodes.push(text.slice(from, found.index));
    nodes.push(el("span", { class: "token", title: escape(char) }, nameOf(char)));
    from = found.index + char.length;
  }
  const rest = text.slice(from);
  if (rest) nodes.push(lines ? escapedLines(rest) : escaped(rest));
  return nodes;
}

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const tenths = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const rough = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 2 });

/** 1,234,567 */
export const count = (number) => whole.format(number);

/** 1.2M: for places with little room. */
export const short = (number) => rough.format(number);

/** A rate: 0.4, 31, 1,234. */
export const rate = (number) => (number < 9.95 ? tenths : whole).format(number);

/** "1 message", "2 messages". */
export const many = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;

const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "medium", hourCycle: "h23" });
const day = new Intl.DateTimeFormat(undefined, {
  dateStyle: "medium",
  timeStyle: "medium",
  hourCycle: "h23",
});
/** The last moment that a Date can represent. */
const MAX_DATE_MS = 8.64e15;

function format(formatter, ms) {
  return ms > 0 && ms <= MAX_DATE_MS ? formatter.format(ms) : ms > 0 ? `${ms} ms` : "unknown";
}

/** The time of day in the user's time zone. */
export const timeOf = (ms) => format(clock, ms);

/** The same, with the date if it is not the date of `now`. */
export function momentOf(ms, now) {
  const same = new Date(ms).toDateString() === new Date(now).toDateString();
  return format(same ? clock : day, ms);
}

/** A duration: 31 ms, 4.2 s, 3 min 12 s, 2 h 5 min, 3 d 4 h. */
export function duration(ms) {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 9950) return `${(ms / 1000).toFixed(1)} s`;
  const s = Math.round(ms / 1000);
  if (s < 60) return `${s} s`;
  const parts = [
    [Math.floor(s / 86400), "d"],
    [Math.floor(s / 3600) % 24, "h"],
    [Math.floor(s / 60) % 60, "min"],
    [s % 60, "s"],
  ];
  const first = parts.findIndex(([number]) => number > 0);
  return parts
    .slice(first, first + 2)
    .filter(([number]) => number > 0)
    .map(([number, unit]) => `${number} ${unit}`)
    .join(" ");
}

/** Seconds as a latency: 0.8 ms, 12 ms, 3.4 s. */
export function latency(s) {
  if (s === null || s === undefined) return "–";
  if (s < 0.00995) return `${(s * 1000).toFixed(1)} ms`;
  return s < 1 ? `${Math.round(s * 1000)} ms` : `${s.toFixed(1)} s`;
}
