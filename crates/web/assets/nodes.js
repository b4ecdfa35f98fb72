// The nodes: a table that can be sorted and filtered.

import { byId, colour, count, el, escaped, isColoured, lasting, rate, say, shown } from "./text.js";

/** Most rows that are drawn; more help nobody. */
const MOST = 200;
const RANK = { generator: 0, worker: 1, dead: 2 };

const place = ({ host, pid }) => `${host}:${pid}`;

/** Columns: heading, what to sort by, its text if it is no more than that; numbers begin with
 * the largest. */
const COLUMNS = [
  { title: "role", by: (node) => RANK[node.role], text: (node) => node.role },
  { title: "name", by: (node) => node.node },
  { title: "host:pid", by: place },
  { title: "per second", number: true, by: (node) => node.per_s, text: (node) => rate(node.per_s) },
  { title: "in hand", number: true, by: (node) => node.claimed, text: (node) => count(node.claimed) },
  { title: "processed", number: true, by: (node) => node.processed, text: (node) => count(node.processed) },
  { title: "failed", number: true, by: (node) => node.failed, text: (node) => count(node.failed) },
  { title: "last seen", number: true, by: (node) => node.seen_ms, text: (node) => ago(node.ago_ms) },
];

/** Beats come at most 2 s apart: below that there is nothing to tell. */
function ago(ms) {
  return ms < 2000 ? "now" : `${lasting(ms)} ago`;
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
    this.#mark();
  }

  /** Takes a snapshot, and how fast each node goes. */
  show(snapshot, rates) {
    this.#snapshot = snapshot;
    this.#rates = rates;
    this.#draw();
  }

  #sort(column) {
    const again = this.#sorted.column === column;
    this.#sorted = { column, down: again ? !this.#sorted.down : Boolean(COLUMNS[column].number) };
    this.#mark();
    this.#draw();
  }

  #mark() {
    this.#heads.forEach((head, column) => {
      if (column !== this.#sorted.column) head.removeAttribute("aria-sort");
      else head.setAttribute("aria-sort", this.#sorted.down ? "descending" : "ascending");
    });
  }

  #draw() {
    if (!this.#snapshot) return;
    const { nodes, now_ms } = this.#snapshot;
    const wanted = byId("filter").value.trim().toLowerCase();
    const { column, down } = this.#sorted;
    const by = COLUMNS[column].by;
    const found = nodes
      .map((node) => ({ ...node, per_s: this.#rates[node.node] ?? 0, ago_ms: now_ms - node.seen_ms }))
      .filter((node) => `${node.node}\n${place(node)}\n${node.role}`.toLowerCase().includes(wanted))
      .sort((a, b) => (down ? -1 : 1) * compare(by(a), by(b)) || compare(a.node, b.node));
    const old = this.#rows;
    this.#rows = new Map();
    const rows = found.slice(0, MOST).map((node) => {
      const row = old.get(node.node) ?? this.#row(node);
      this.#rows.set(node.node, row);
      fill(row, node);
      return row;
    });
    // Only moved if they have to be: a row that stays keeps its selection and its place.
    if (rows.length !== this.#body.rows.length || rows.some((row, at) => this.#body.rows[at] !== row)) {
      this.#body.replaceChildren(...rows);
    }
    this.#tell(nodes, found);
  }

  #row({ node }) {
    const cells = COLUMNS.map(({ title, number }) =>
      el("td", { role: "cell", class: number ? "number" : "", "data-label": title }),
    );
    const row = el("tr", { role: "row" }, ...cells);
    row.dataset.node = node;
    cells[1].className = "foreign name";
    cells[1].append(el("span", { class: "swatch", hidden: true }), el("span", {}, ...shown(node)));
    cells[2].className = "place";
    cells[2].append(el("span", {}, el("span", { class: "foreign" }), el("span")));
    return row;
  }

  #tell(nodes, found) {
    const dead = nodes.filter(({ role }) => role === "dead").length;
    const alive = nodes.length - dead;
    say(byId("nodes-count"), `${count(alive)} alive${dead ? `, ${count(dead)} gone` : ""}`);
    const more = byId("nodes-more");
    const left = found.length - MOST;
    more.hidden = left <= 0 && found.length > 0;
    const none = nodes.length ? "No node is like that." : "Nobody is here yet.";
    say(more, left > 0 ? `and ${count(left)} more` : none);
  }
}

function fill(row, node) {
  row.className = node.role;
  COLUMNS.forEach(({ text }, index) => {
    if (text) say(row.cells[index], text(node));
  });
  // A long host is cut, its process id is not.
  const [host, pid] = row.cells[2].firstChild.children;
  say(host, escaped(node.host) || "unknown");
  say(pid, node.pid ? `:${node.pid}` : "");
  row.cells[2].title = host.textContent + pid.textContent;
  const swatch = row.cells[1].firstChild;
  if (swatch.hidden && isColoured(node.node)) {
    colour(swatch, node.node);
    swatch.hidden = false;
  }
}
