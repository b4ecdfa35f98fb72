// The table of nodes, which the user can sort and filter.

import { colour, isColoured } from "./colours.js";
import { byId, count, duration, el, escaped, rate, safeNodes, setText } from "./text.js";

/** The table has at most this many rows. */
const MAX_ROWS = 200;
const RANK = { generator: 0, worker: 1, dead: 2 };

const place = ({ host, pid }) => `${host}:${pid}`;

/** The columns: title, sort key, and text unless `#row` builds the cell. Numbers sort from the largest
 * down. */
const COLUMNS = [
  { title: "role", by: (node) => RANK[node.role], text: (node) => node.role },
  { title: "name", by: (node) => node.node },
  { title: "host:pid", by: place },
  { title: "per second", number: true, by: (node) => node.per_s, text: (node) => rate(node.per_s) },
  { title: "in hand", number: true, by: (node) => node.claimed, text: (node) => count(node.claimed) },
  { title: "processed", number: true, by: (node) => node.processed, text: (node) => count(node.processed) },
  { title: "failed", number: true, by: (node) => node.failed, text: (node) => count(node.failed) },
  { title: "delayed", number: true, by: (node) => node.delayed, text: (node) => count(node.delayed) },
  { title: "version", by: (node) => node.version, text: (node) => escaped(node.version) },
  { title: "last seen", number: true, by: (node) => node.seen_ms, text: (node) => ago(node.ago_ms) },
];

const VERSION = COLUMNS.findIndex(({ title }) => title === "version");

/** Nodes beat every 2 s at least, so a shorter time says nothing. */
function ago(ms) {
  return ms < 2000 ? "now" : `${duration(ms)} ago`;
}

function compare(a, b) {
  return typeof a === "number" ? a - b : a < b ? -1 : a > b ? 1 : 0;
}

export class Nodes {
  #body = byId("nodes").tBodies[0];
  #heads = [];
  #rows = new Map();
  #sorted = { column: 0, down: false };
  #snapshot = null;
  #rates = {};

  constructor() {
    const row = byId("nodes").tHead.rows[0];
    this.#heads = COLUMNS.map(({ title, number }, column) => {
      const button = el("button", { type: "button", onclick: () => this.#sort(column) }, title);
      const head = el("th", { scope: "col", role: "columnheader", class: number ? "number" : "" }, button);
      row.append(head);
      return head;
    });
    byId("filter").addEventListener("input", () => this.#draw());
    this.#markSortedColumn();
  }

  /** Takes a snapshot and the rate of each node. */
  update(snapshot, rates) {
    this.#snapshot = snapshot;
    this.#rates = rates;
    this.#draw();
  }

  #sort(column) {
    const again = this.#sorted.column === column;
    this.#sorted = { column, down: again ? !this.#sorted.down : Boolean(COLUMNS[column].number) };
    this.#markSortedColumn();
    this.#draw();
  }

  #markSortedColumn() {
    this.#heads.forEach((head, column) => {
      if (column !== this.#sorted.column) head.removeAttribute("aria-sort");
      else head.setAttribute("aria-sort", this.#sorted.down ? "descending" : "ascending");
    });
  }

  #draw() {
    if (!this.#snapshot) return;
    const { nodes, now_ms } = this.#snapshot;
    const filter = byId("filter").value.trim().toLowerCase();
    const { column, down } = this.#sorted;
    const by = COLUMNS[column].by;
    const found = nodes
      .map((node) => ({ ...node, per_s: this.#rates[node.node] ?? 0, ago_ms: now_ms - node.seen_ms }))
      .filter((node) => `${node.node}\n${place(node)}\n${node.role}`.toLowerCase().includes(filter))
      .sort((a, b) => (down ? -1 : 1) * compare(by(a), by(b)) || compare(a.node, b.node));
    const old = this.#rows;
    this.#rows = new Map();
    const rows = found.slice(0, MAX_ROWS).map((node) => {
      const row = old.get(node.node) ?? this.#row(node);
      this.#rows.set(node.node, row);
      fill(row, node);
      return row;
    });
    // Rows that move lose the user's selection, so this moves none without need.
    if (rows.length !== this.#body.rows.length || rows.some((row, at) => this.#body.rows[at] !== row)) {
      this.#body.replaceChildren(...rows);
    }
    this.#updateCounts(nodes, found);
  }

  #row({ node }) {
    const cells = COLUMNS.map(({ title, number }) =>
      el("td", { role: "cell", class: number ? "number" : "", "data-label": title }),
    );
    const row = el("tr", { role: "row" }, ...cells);
    row.dataset.node = node;
    cells[1].className = "foreign name";
    cells[1].append(el("span", { class: "swatch", hidden: true }), el("span", {}, ...safeNodes(node)));
    cells[2].className = "place";
    cells[2].append(el("span", {}, el("span", { class: "foreign" }), el("span")));
    cells[VERSION].className = "foreign version";
    return row;
  }

  #updateCounts(nodes, found) {
    const dead = nodes.filter(({ role }) => role === "dead").length;
    const alive = nodes.length - dead;
    setText(byId("nodes-count"), `${count(alive)} alive${dead ? `, ${count(dead)} gone` : ""}`);
    const more = byId("nodes-more");
    const left = found.length - MAX_ROWS;
    more.hidden = left <= 0 && found.length > 0;
    const none = nodes.length ? "No node is like that." : "Nobody is here yet.";
    setText(more, left > 0 ? `and ${count(left)} more` : none);
  }
}

function fill(row, node) {
  row.className = node.role;
  COLUMNS.forEach(({ text }, index) => {
    if (text) setText(row.cells[index], text(node));
  });
  // The page cuts a long host, but not the process id.
  const [host, pid] = row.cells[2].firstChild.children;
  setText(host, escaped(node.host) || "unknown");
  setText(pid, node.pid ? `:${node.pid}` : "");
  row.cells[2].title = host.textContent + pid.textContent;
  const swatch = row.cells[1].firstChild;
  if (swatch.hidden && isColoured(node.node)) {
    colour(swatch, node.node);
    swatch.hidden = false;
  }
}
