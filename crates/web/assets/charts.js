// Rate, backlog and latency over the latest minutes, drawn by uPlot.

import { byId, count, el, latency, rate, short, timeOf } from "./text.js";

/** As many points as the server keeps. */
const MOST = 900;
/** Readings further apart than this are not joined by a line, in seconds. */
const HOLE_S = 5;
/** Longest that the points so far are waited for, in ms. */
const MEANWHILE_MS = 30_000;
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
        // From nothing up: a rate that looks high is high.
        y: { range: (_, __, most) => [0, most > 0 ? most * 1.1 : 1] },
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
          // Told apart also by those who do not see the colour.
          dash: index === 0 ? undefined : index === 1 ? [6, 2] : [2, 3],
          points: { show: false },
        })),
      ],
      hooks: { setCursor: [() => this.#tell()] },
    };
  }

  /** Points, and the seconds that are shown of them. */
  set(points, range) {
    this.#range = range;
    const holed = points.flatMap((point, index) => {
      const before = points[index - 1];
      return before && point.at_ms - before.at_ms > HOLE_S * 1000 ? [null, point] : [point];
    });
    // A hole has a place in time just before the point that ends it.
    const times = holed.map((point, index) => point?.at_ms ?? holed[index + 1].at_ms - 1);
    const values = ([, , value]) => holed.map((point) => (point ? value(point) : null));
    this.#data = [times.map((ms) => ms / 1000), ...this.#about.lines.map(values)];
    this.#plot.setData(this.#data);
    this.#tell();
  }

  /** Draws the same in the colours of now. */
  paint() {
    this.#plot.redraw(false, true);
  }

  /** The values under the cursor, or the newest. */
  #tell() {
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
      for (const chart of this.#charts) chart.paint();
    });
  }

  /** The points so far; those that came as events since they were asked for stay. */
  begin(points) {
    const last = points.at(-1)?.at_ms ?? 0;
    const isNewer = ({ at_ms }) => at_ms > last && at_ms < last + MEANWHILE_MS;
    this.#points = [...points, ...this.#points.filter(isNewer)].slice(-MOST);
  }

  /** One more point. */
  add(point) {
    const last = this.#points.at(-1)?.at_ms ?? 0;
    if (point.at_ms === last) return;
    // A clock that was set back, or another server.
    if (point.at_ms < last) this.#points = [];
    this.#points.push(point);
    if (this.#points.length > MOST) this.#points.shift();
  }

  /** Draws from one moment of Redis's clock to another. */
  draw([begin, now]) {
    const seen = this.#points.filter(({ at_ms }) => at_ms >= begin - HOLE_S * 1000);
    for (const chart of this.#charts) chart.set(seen, [begin / 1000, now / 1000]);
  }
}
