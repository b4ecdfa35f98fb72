// The table of partitions, which a fleet of one partition does not have.

import { byId, count, el, escaped, setText } from "./text.js";

const number = (name) => ({ title: name, number: true, text: (partition) => known(partition, partition[name]) });

/** The columns: title and text. */
const COLUMNS = [
  { title: "partition", number: true, text: ({ partition }) => String(partition) },
  ...["published", "done", "failed", "pending", "claimed", "delayed", "errors"].map(number),
  { title: "books", text: books },
  { title: "server", text: ({ server }) => escaped(server) || "–" },
];

/** A count, or a dash for a partition that could not be read. */
function known({ trouble }, value) {
  return trouble === null ? count(value) : "–";
}

function books({ trouble, balanced }) {
  if (trouble !== null) return "not read";
  return balanced ? "balanced" : "NOT BALANCED";
}

/** Why partitions could not be read, a sentence each. */
export function partitionTroubles({ partitions = [] }) {
  const unread = partitions.filter(({ trouble }) => trouble !== null);
  return unread.map(({ partition, trouble }) => `partition ${partition} cannot be read: ${trouble}`);
}

export class Partitions {
  #body = byId("partitions").tBodies[0];

  constructor() {
    const heads = COLUMNS.map(({ title, number }) =>
      el("th", { scope: "col", role: "columnheader", class: number ? "number" : "" }, title),
    );
    byId("partitions").tHead.rows[0].append(...heads);
  }

  /** Takes a snapshot. */
  update({ partitions = [] }) {
    byId("partitions-card").hidden = partitions.length === 0;
    if (this.#body.rows.length !== partitions.length) {
      this.#body.replaceChildren(...partitions.map(row));
    }
    partitions.forEach((partition, at) => {
      COLUMNS.forEach(({ text }, column) => setText(this.#body.rows[at].cells[column], text(partition)));
    });
    const read = partitions.filter(({ trouble }) => trouble === null).length;
    setText(byId("partitions-count"), `${count(read)} of ${count(partitions.length)} read`);
  }
}

function row() {
  const cells = COLUMNS.map(({ title, number }) =>
    el("td", { role: "cell", class: number ? "number" : "foreign", "data-label": title }),
  );
  return el("tr", { role: "row" }, ...cells);
}
