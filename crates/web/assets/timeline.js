// The timeline: which node held the baton when, and where the baton changed hands.

import { colour } from "./colours.js";
import { byId, duration, el, escaped, momentOf, safeNodes, setText, textOf, timeOf } from "./text.js";

const BAND = { top: 26, height: 38 };
const HEIGHT = 90;
/** The least width of a gap, in pixels: most gaps would be far narrower. */
const MIN_GAP = 3;
/** The width of a character in the labels, in pixels. */
const CHAR = 7.3;
/** The possible distances of ticks, in ms, and the least distance in pixels. */
const TICKS = [5_000, 10_000, 30_000, 60_000, 120_000, 300_000, 900_000];
const MIN_TICK = 92;

/** Each cause of a takeover, as a label and as a clause. */
const CAUSES = {
  resigned: ["resigned", "it resigned"],
  gone: ["gone", "its process was gone"],
  expired: ["silent", "it was silent for too long"],
};

const SVG = "http://www.w3.org/2000/svg";

function svg(tag, attributes = {}, text) {
  const element = document.createElementNS(SVG, tag);
  set(element, attributes);
  if (text !== undefined) element.textContent = text;
  return element;
}

function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    element.setAttribute(name, typeof value === "number" ? value.toFixed(1) : value);
  }
}

/** How a takeover came about, without its time: DOM nodes. */
export function describeTakeover({ node, how, from, gap_ms }) {
  const name = (node) => el("b", { class: "foreign" }, ...safeNodes(node));
  if (how === "raised") return [name(node), " went on under a higher epoch"];
  if (!CAUSES[how]) return [name(node), " was the first to hold the baton"];
  const after = gap_ms > 0 ? ` after ${duration(gap_ms)}: ` : " at once: ";
  // The fleet may have forgotten which node resigned before the oldest takeover.
  const before = from ? [" from ", name(from)] : [];
  return [name(node), " took over", ...before, after, CAUSES[how][1]];
}

/** Which node held the baton from when to when, oldest first. */
export function tenures({ takeovers, generator, now_ms }, heldUntil) {
  const oldest = takeovers.at(-1);
  const all = takeovers.map((takeover, index) => {
    const next = takeovers[index - 1];
    const last = generator.node === null ? Math.min(heldUntil, now_ms) : now_ms;
    const until = next ? next.at_ms - next.gap_ms : last;
    const from = takeover.at_ms;
    return { epoch: takeover.epoch, node: takeover.node, from, until: Math.max(from, until), takeover };
  });
  if (oldest?.from) {
    const until = oldest.at_ms - oldest.gap_ms;
    all.push({ epoch: null, node: oldest.from, from: -Infinity, until, takeover: null });
  }
  return all.reverse();
}

export class Timeline {
  #root = byId("timeline");
  #tip = byId("tip");
  #band = svg("g");
  #marks = svg("g", { class: "marks", "aria-hidden": "true" });
  #segments = new Map();
  #state = null;
  #heldUntil = 0;
  /** The newest epoch in the list of takeovers. */
  #listedEpoch = null;

  constructor() {
    const hatch = svg("pattern", {
      id: "hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)",
    });
    hatch.append(svg("rect", { width: 2.5, height: 6, class: "hatch" }));
    const defs = svg("defs");
    defs.append(hatch);
    this.#root.append(defs, this.#band, this.#marks);
    new ResizeObserver(() => this.#draw()).observe(this.#root.parentElement);
    this.#root.addEventListener("keydown", (event) => this.#onKey(event));
    this.#root.addEventListener("pointerleave", () => (this.#tip.hidden = true));
  }

  /** Takes a snapshot, and draws from one moment of Redis's clock until now. `stale` says that the
   * snapshot is old. */
  update(snapshot, [begin, now], stale) {
    const { generator, now_ms, takeovers } = snapshot;
    if (generator.node !== null) this.#heldUntil = now_ms;
    // The first snapshot has no holder: the last one held the baton at most until its lease ended.
    else this.#heldUntil ||= generator.until_ms || takeovers[0]?.at_ms || now_ms;
    for (const { node } of takeovers.toReversed()) colour(document.createElement("i"), node);
    this.#state = { snapshot, begin, now, stale };
    this.#listTakeovers(snapshot);
    this.#draw();
  }

  #listTakeovers({ takeovers, now_ms }) {
    const newest = takeovers[0]?.epoch ?? 0;
    if (newest === this.#listedEpoch) return;
    const isNews = this.#listedEpoch !== null && newest > this.#listedEpoch;
    this.#listedEpoch = newest;
    const items = takeovers.map((takeover) => {
      const swatch = el("span", { class: "swatch", "aria-hidden": "true" });
      colour(swatch, takeover.node);
      const time = el("time", {}, momentOf(takeover.at_ms, now_ms));
      const words = el("span", {}, ...describeTakeover(takeover));
      return el("li", {}, time, swatch, words, el("span", { class: "quiet" }, `epoch ${takeover.epoch}`));
    });
    byId("takeovers").replaceChildren(...items);
    if (isNews) setText(byId("heard"), `${timeOf(takeovers[0].at_ms)} ${textOf(describeTakeover(takeovers[0]))}`);
  }

  #draw() {
    const width = this.#root.parentElement.clientWidth;
    if (!this.#state || width === 0) return;
    const { snapshot, begin, now, stale } = this.#state;
    const x = (ms) => ((Math.max(ms, begin) - begin) / (now - begin)) * width;
    set(this.#root, { viewBox: `0 0 ${width} ${HEIGHT}`, width: `${width}`, height: `${HEIGHT}` });
    const visible = tenures(snapshot, this.#heldUntil).filter(({ until }) => until >= begin);
    this.#updateSegments(visible, x);
    const marks = [...axis(begin, now, x, width), ...gaps(visible, begin, x, width)];
    const hatched = (from, until, name) =>
      marks.push(box(x(from), Math.max(0, x(until) - x(from)), { class: name, fill: "url(#hatch)" }));
    if (snapshot.generator.node === null) hatched(visible.at(-1)?.until ?? begin, snapshot.now_ms, "no-holder");
    if (stale) hatched(snapshot.now_ms, now, "unknown");
    this.#marks.replaceChildren(...marks);
  }

  #updateSegments(visible, x) {
    const old = this.#segments;
    this.#segments = new Map();
    for (const tenure of visible) {
      const key = `${tenure.epoch} ${tenure.from} ${tenure.node}`;
      const segment = old.get(key) ?? this.#segment(tenure);
      old.delete(key);
      this.#segments.set(key, segment);
      const left = x(tenure.from);
      const width = Math.max(1, x(tenure.until) - left);
      const room = Math.floor((width - 14) / CHAR);
      const name = escaped(tenure.node);
      segment.tenure = tenure;
      segment.middle = left + width / 2;
      const [rect, label] = segment.element.children;
      set(rect, { x: left, y: BAND.top, width, height: BAND.height });
      set(label, { x: left + 8, y: BAND.top + BAND.height / 2 + 4.5 });
      setText(label, name.length <= room ? name : room > 3 ? `${name.slice(0, room - 1)}…` : "");
      segment.element.setAttribute("aria-label", labelOf(tenure));
    }
    for (const segment of old.values()) segment.element.remove();
    const all = [...this.#segments.values()].map(({ element }) => element);
    this.#band.append(...all.filter((element) => !element.parentNode));
    // The tab key stops at the newest segment only; the arrow keys go on from there.
    if (!all.some((element) => element.getAttribute("tabindex") === "0")) {
      all.at(-1)?.setAttribute("tabindex", "0");
    }
  }

  #segment(tenure) {
    const element = svg("g", { class: "segment", role: "img", tabindex: "-1" });
    if (tenure.epoch === null) element.classList.add("before");
    else element.dataset.epoch = tenure.epoch;
    colour(element, tenure.node);
    element.append(svg("rect", { rx: 4 }), svg("text"));
    const segment = { element, tenure, middle: 0 };
    const open = () => this.#openTip(segment);
    element.addEventListener("pointerenter", open);
    element.addEventListener("focus", open);
    element.addEventListener("blur", () => (this.#tip.hidden = true));
    return segment;
  }

  #openTip({ tenure, middle }) {
    const { takeover, node, from, until } = tenure;
    const lines = [el("strong", { class: "foreign" }, ...safeNodes(node)), el("span", {}, span(tenure))];
    if (takeover) {
      const how = [...describeTakeover(takeover).slice(1), ` · epoch ${takeover.epoch}`];
      lines.push(el("span", { class: "quiet" }, ...how));
    }
    this.#tip.replaceChildren(...lines);
    this.#tip.hidden = from > until;
    const max = this.#root.parentElement.clientWidth - this.#tip.offsetWidth;
    this.#tip.style.left = `${Math.max(0, Math.min(max, middle - this.#tip.offsetWidth / 2))}px`;
  }

  #onKey(event) {
    const all = [...this.#segments.values()].map(({ element }) => element);
    const at = all.indexOf(document.activeElement);
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: all.length - 1 }[event.key];
    if (event.key === "Escape") this.#tip.hidden = true;
    if (to === undefined || !all[to]) return;
    event.preventDefault();
    for (const element of all) element.setAttribute("tabindex", "-1");
    all[to].setAttribute("tabindex", "0");
    all[to].focus();
  }
}

/** The times below the band. */
function axis(begin, now, x, width) {
  const step = TICKS.find((step) => (step / (now - begin)) * width >= MIN_TICK) ?? TICKS.at(-1);
  const marks = [];
  // All time zones differ by quarters of an hour, so the ticks are at full quarters everywhere.
  for (let at = Math.ceil(begin / step) * step; at < now; at += step) {
    const text = timeOf(at).slice(0, step < 60_000 ? 8 : 5);
    const half = (text.length * CHAR) / 2;
    if (x(at) < half || x(at) > width - half) continue;
    const foot = BAND.top + BAND.height;
    marks.push(svg("line", { x1: x(at), x2: x(at), y1: foot, y2: foot + 5 }));
    marks.push(svg("text", { x: x(at), y: HEIGHT - 8, "text-anchor": "middle" }, text));
  }
  return marks;
}

function box(x, width, attributes) {
  return svg("rect", { x, y: BAND.top, width, height: BAND.height, ...attributes });
}

/** The marks of takeovers: a gap, and a label as long as there is room for. */
function gaps(visible, begin, x, width) {
  const marks = [];
  let free = width;
  for (const { takeover, from } of visible.toReversed()) {
    if (!takeover || from < begin || !CAUSES[takeover.how]) continue;
    const right = x(from);
    const left = Math.min(x(from - takeover.gap_ms), right - MIN_GAP);
    marks.push(box(left, right - left, { class: "gap" }));
    marks.push(svg("path", { class: "mark", d: `M${right - 5} ${BAND.top - 9}h8l-4 6z` }));
    const cause = CAUSES[takeover.how][0];
    const gap = duration(takeover.gap_ms);
    const label = (takeover.gap_ms > 0 ? [`${gap} ${cause}`, gap] : [cause]).find((text) => {
      const half = (text.length * CHAR) / 2;
      return Math.min(right, width - half) + half <= free && right - half >= 0;
    });
    if (!label) continue;
    const half = (label.length * CHAR) / 2;
    const middle = Math.min(right, width - half);
    free = middle - half - 6;
    marks.push(svg("text", { x: middle, y: 12, "text-anchor": "middle" }, label));
  }
  return marks;
}

function span({ from, until }) {
  const held = from === -Infinity ? "" : ` (${duration(until - from)})`;
  return `${from === -Infinity ? "…" : timeOf(from)} – ${timeOf(until)}${held}`;
}

function labelOf(tenure) {
  const how = tenure.takeover ? textOf(describeTakeover(tenure.takeover)) : escaped(tenure.node);
  return `${how}, ${span(tenure)}`;
}
