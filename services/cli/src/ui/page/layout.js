// Where every node's box is: groups below each other, boxes in rows, as wide as the node has CPU. Pure.

/** The largest zoom; 0 is the smallest. */
export const MOST = 13;

/** Pixels for one core, height of a box, gap between boxes: from the whole cluster at a glance to names of pods. @param {number} zoom */
export function scale(zoom) {
  return [0.6 * 1.6 ** zoom, Math.min(zoom > 10 ? 120 + (zoom - 10) * 50 : 120, 5 * 1.42 ** zoom), Math.min(9, 1 + zoom * 0.8)];
}

const TITLE = 26;
const MARGIN = 20;

/** @param {string} by @param {any} node */
export function groupOf(by, node) {
  const own = { pool: node.pool, zone: node.zone, capacity: node.cap, type: node.type }[by];
  return own || (node.claim ? "not known yet" : "not managed");
}

/** Nodes by group, each in order of size. @param {any[]} nodes @param {(node: any) => string} group @returns {[string, any[]][]} */
export function grouped(nodes, group) {
  const groups = new Map();
  for (const node of nodes) {
    const key = group(node);
    let own = groups.get(key);
    if (!own) groups.set(key, (own = []));
    own.push(node);
  }
  for (const members of groups.values()) members.sort((a, b) => b.cpu[1] - a.cpu[1] || (a.name < b.name ? -1 : 1));
  return [...groups].sort((a, b) => (a[0] < b[0] ? -1 : 1));
}

/** @param {[string, any[]][]} groups @param {number} width @param {number} zoom */
export function layout(groups, width, zoom) {
  const [unit, height, gap] = scale(zoom);
  const rows = [];
  const titles = [];
  let y = 4;
  for (const [key, members] of groups) {
    titles.push({ key, y, members });
    y += TITLE;
    let [x, row] = [MARGIN, { y, height, items: [] }];
    const full = width - MARGIN;
    for (const node of members) {
      const wide = Math.min(Math.max((node.cpu[1] / 1000) * unit, Math.min(4, height)), full - MARGIN);
      if (x + wide > full && row.items.length) {
        rows.push(row);
        y += height + gap;
        [x, row] = [MARGIN, { y, height, items: [] }];
      }
      row.items.push({ x, width: wide, node });
      x += wide + gap;
    }
    rows.push(row);
    y += height + gap + 8;
  }
  return { rows, titles, height: y + 4, tall: height };
}

/** The largest zoom at which everything is in sight; the smallest one when nothing fits. */
export function fit(groups, width, height) {
  let [count, cores] = [0, 0];
  for (const [, members] of groups) {
    count += members.length;
    for (const node of members) cores += node.cpu[1] / 1000;
  }
  for (let zoom = MOST; zoom > 0; zoom -= 0.25) {
    // The boxes' area alone rules most of them out.
    const [unit, tall, gap] = scale(zoom);
    if ((cores * unit + count * gap) * (tall + gap) > width * height) continue;
    if (layout(groups, width, zoom).height <= height) return zoom;
  }
  return 0;
}

/** First row that ends below y. @param {{y: number, height: number}[]} rows */
export function rowAt(rows, y) {
  let [low, high] = [0, rows.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (rows[middle].y + rows[middle].height < y) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The box at a point, if there is one. */
export function boxAt(rows, x, y) {
  const row = rows[rowAt(rows, y)];
  if (!row || y < row.y) return null;
  const item = row.items.find((each) => x >= each.x && x <= each.x + each.width);
  return item ? { ...item, y: row.y, height: row.height } : null;
}

/** The two lanes of a box: the upper one is CPU, the lower one memory. */
export function lanes(x, y, width, height) {
  const head = height >= 36 ? 17 : 0;
  const inset = height >= 20 && width >= 24 ? 3 : 1;
  const tall = (height - head - inset * 2 - 2) / 2;
  const top = y + head + inset;
  return { head, left: x + inset, width: width - inset * 2, tall, tops: [top, top + tall + 2] };
}

/** Height of a line of pods that still has room for a name, and the width that a pod should have for one. */
const LINE = 17;
const NAMED = 48;

/**
 * Pods of one lane side by side by what they request, in as many lines below each other as make them wide enough to be told
 * apart. Calls `place(pod, x, y, width, height, meant)` for each piece; a piece that returns true is the last.
 * @param {any} node @param {number} lane 0 for CPU, 1 for memory
 */
export function eachPod(node, lane, { left, width, tall, tops }, place) {
  const all = (lane ? node.mem : node.cpu)[1];
  if (!all || width <= 0) return;
  const meant = node.meant || [];
  const lines = Math.max(1, Math.min(Math.floor(tall / LINE), Math.ceil(((node.pods.length + meant.length) * NAMED) / width)));
  const high = tall / lines;
  let at = 0;
  for (const pods of [node.pods, meant]) {
    for (const pod of pods) {
      let rest = (pod[lane + 2] / all) * width * lines;
      if (rest < 0.25) {
        at += rest;
        continue;
      }
      while (rest > 0.01) {
        const line = Math.floor(at / width + 1e-9);
        if (line >= lines) return;
        const from = Math.max(0, at - line * width);
        const wide = Math.min(rest, width - from);
        if (place(pod, left + from, tops[lane] + line * high, wide, lines > 1 ? high - 1 : high, pods !== node.pods)) return;
        at += wide;
        rest -= wide;
      }
    }
  }
}

/** The pod at a point of a box, if there is one. */
export function podAt(box, x, y) {
  const area = lanes(box.x, box.y, box.width, box.height);
  const lane = y >= area.tops[1] ? 1 : 0;
  if (y < area.tops[0] || y > area.tops[1] + area.tall) return null;
  let found = null;
  eachPod(box.node, lane, area, (pod, left, top, width, height, meant) => {
    if (x < left || x > left + width || y < top || y > top + height) return false;
    found = { pod, meant };
    return true;
  });
  return found;
}
