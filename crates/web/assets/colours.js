// The colours of nodes that hold or held the baton.

/** Hues that a person can tell apart, each in two tones. */
const HUES = [262, 150, 60, 330, 200, 25, 110, 295, 175, 85, 0, 230];
/** The colour of each name, as an index into the hues of both tones. */
const colours = new Map();

function hash(text) {
  let sum = 0x811c9dc5;
  for (const char of text) sum = Math.imul(sum ^ char.codePointAt(0), 0x01000193);
  return (sum ^ (sum >>> 15)) >>> 0;
}

/**
 * Gives an element the colour of a node. The colour depends on the name; if another node has that
 * colour, the node gets the next free one.
 */
export function colour(element, name) {
  const all = HUES.length * 2;
  if (!colours.has(name)) {
    if (colours.size >= all) colours.delete(colours.keys().next().value);
    const taken = new Set(colours.values());
    let own = hash(name) % all;
    while (taken.has(own)) own = (own + 5) % all;
    colours.set(name, own);
  }
  const own = colours.get(name);
  element.style.setProperty("--hue", HUES[own % HUES.length]);
  element.dataset.tone = own < HUES.length ? "one" : "two";
}

/** Whether a node has a colour, because it holds or held the baton. */
export const isColoured = (name) => colours.has(name);
