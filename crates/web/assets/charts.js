// Rate, backlog and latency over the latest minutes, drawn by uPlot.

import { byId, count, el, latency, rate, short, timeOf } from "./text.js";

/** The server keeps this many points, too. */
const MAX_POINTS = 900;
/** No line joins two points that are further apart than this, in seconds. */
const MAX_GAP_S = 5;
/** Events that arrive before the earlier points do are at most this much newer, in ms. */
const MAX_NEWER_MS = 30_000;
const HEIGHT = 170;

const CHARTS = [
  {
    id: "chart-rate",
    title: "Messages per second",
    format: rate,
    axis: short,
    lines: [
      ["published", "--line-1", (point) => point.published_per_s],
      ["done", "--line-2", (point) => point.done_per_s],
      ["failed", "--line-3", (point) => point.failed_per_s],
    ],
  },
  {
    id: "chart-backlog",
    title: "Backlog",
    format: count,
    axis: short,
    lines: [
      ["pending", "--line-1", (point) => point.pending],
      ["in hand", "--line-2", (point) => point.claimed],
      ["delayed", "--warn", (point) => point.delayed],
    ],
  },
  {
    id: "chart-latency",
    title: "From publish to commit",
    format: latency,
    axis: (s) => (s === 0 ? "0" : latency(s).replace(".0 ", " ")),
    lines: [
      ["half within", "--line-1", (point) => point.p50_s],
      ["99 % within", "--line-3", (point) => point.p99_s],
    ],
  },
];

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

class Chart {
  #about;
  #plot;
  #values;
  #when = el("time", { class: "quiet" });
  #data;
  #range = [Date.now() / 1000 - 300, Date.now() / 1000];

  constructor(about) {
    this.#about = about;
    this.#data = [[], ...about.lines.map(() => [])];
    this.#values = about.lines.map(() => el("b", {}, "–"));
    const legend = about.lines.map(([name, colour], index) => {
      const key = el("i", { class: "key" });
      key.style.background = `var(${colour})`;
      return el("span", {}, key, name, " ", this.#values[index]);
    });
    const figure = byId(about.id);
    const frame = el("div", { class: "plot", "aria-hidden": "true" });
    const title = el("h3", {}, about.title, " ", this.#when);
    figure.append(el("figcaption", {}, title, el("p", { class: "legend" }, ...legend)), frame);
    this.#plot = new uPlot(this.#options(frame.clientWidth || 300), this.#data, frame);
    new ResizeObserver(() => this.#plot.setSize({ width: frame.clientWidth, height: HEIGHT })).observe(frame);
  }

  #options(width) {
    const { lines, axis } = this.#about;
    const quiet = { stroke: () => css("--quiet"), font: '11px system-ui, sans-serif' };
    const grid = { stroke: () => css("--grid"), width: 1 };
    const ticks = { show: false };
    return {
      width,
      height: HEIGHT,
      legend: { show: false },
      cursor: { y: false, sync: { key: "baton" }, drag: { x: false, y: false }, points: { size: 6 } },
      padding: [8, 16, 0, 0],
      scales: {
        x: { time: true, range: () => this.#range },
        // The axis begins at 0, so that a small change does not look large.
        y: { range: (_, __, max) => [0, max > 0 ? max * 1.1 : 1] },
      },
      axes: [
        {
          ...quiet, grid, ticks, size: 26,
          space: 64,
          incrs: [5, 10, 30, 60, 120, 300, 900],
          values: (_, marks) => marks.map((s) => timeOf(s * 1000).slice(0, s % 60 ? 8 : 5)),
        },
        { ...quiet, grid, ticks, size: 52, space: 34, values: (_, marks) => marks.map(axis) },
      ],
      series: [
        {},
        ...lines.map(([, colour], index) => ({
          stroke: () => css(colour),
          fill: index === 0 ? () => `${css(colour)}1f` : undefined,
          width: 1.75,
          // Dashes tell the lines apart without colours.
          dash: index === 0 ? undefined : index === 1 ? [6, 2] : [2, 3],
          points: { show: false },
        })),
      ],
      hooks: { setCursor: [() => this.#updateLegend()] },
    };
  }

  /** Draws these points in this range of seconds. */
  set(points, range) {
    this.#range = range;
    const withGaps = points.flatMap((point, index) => {
      const before = points[index - 1];
      return before && point.at_ms - before.at_ms > MAX_GAP_S * 1000 ? [null, point] : [point];
    });
    // A gap lies just before the point that ends it.
    const times = withGaps.map((point, index) => point?.at_ms ?? withGaps[index + 1].at_ms - 1);
    const values = ([, , value]) => withGaps.map((point) => (point ? value(point) : null));
    this.#data = [times.map((ms) => ms / 1000), ...this.#about.lines.map(values)];
    this.#plot.setData(this.#data);
    this.#updateLegend();
  }

  /** Draws again, in the colours of the current scheme. */
  redraw() {
    this.#plot.redraw(false, true);
  }

  /** Writes the values under the cursor, or the newest ones, into the legend. */
  #updateLegend() {
    const [times, ...values] = this.#data;
    const under = this.#plot?.cursor.idx;
    const at = under ?? times.length - 1;
    this.#when.textContent = under == null || !times[at] ? "" : timeOf(times[at] * 1000);
    this.#values.forEach((element, index) => {
      const value = values[index][at];
      element.textContent = value == null ? "–" : this.#about.format(value);
    });
  }
}

export class Charts {
  #points = [];
  #charts = CHARTS.map((about) => new Chart(about));

  constructor() {
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      for (const chart of this.#charts) chart.redraw();
    });
  }

  /** Takes the points so far, and keeps the newer ones that events have brought meanwhile. */
  begin(points) {
    const last = points.at(-1)?.at_ms ?? 0;
    const isNewer = ({ at_ms }) => at_ms > last && at_ms < last + MAX_NEWER_MS;
    this.#points = [...points, ...this.#points.filter(isNewer)].slice(-MAX_POINTS);
  }

  /** Adds a point. */
  add(point) {
    const last = this.#points.at(-1)?.at_ms ?? 0;
    if (point.at_ms === last) return;
    // The server's clock was set back, or this is another server.
    if (point.at_ms < last) this.#points = [];
    this.#points.push(point);
    if (this.#points.length > MAX_POINTS) this.#points.shift();
  }

  /** Draws the points between two moments of Redis's clock. */
  draw([begin, now]) {
    const visible = this.#points.filter(({ at_ms }) => at_ms >= begin - MAX_GAP_S * 1000);
    for (const chart of this.#charts) chart.set(visible, [begin / 1000, now / 1000]);
  }
}
