// One frame of the nodes' canvas.

import { money, whole } from "./format.js";
import { hatch, ofPriority, theme } from "./colours.js";
import { DAEMON, DO_NOT_DISRUPT } from "./model.js";
import { eachPod, lanes } from "./layout.js";

export const STATES = { launching: "Launching", joining: "Registering", draining: "Draining", replaced: "Being replaced", foreign: "Not managed" };
const FLASH = 2200;

/** The part of a node's name that differs: EC2 names nodes by address, and all end in the same domain. */
function shortName(node) {
  const [first, ...domain] = node.name.split(".");
  return domain.at(-1) === "internal" ? first : node.name;
}

/** The text, or as much of its beginning as fits. */
function fitting(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let [fits, not] = [0, text.length];
  while (not - fits > 1) {
    const half = (fits + not) >> 1;
    if (context.measureText(text.slice(0, half) + "…").width <= width) fits = half;
    else not = half;
  }
  return text.slice(0, fits) + "…";
}

export class Painter {
  /**
   * @param {CanvasRenderingContext2D} context
   * @param {import("./model.js").Model} model
   * @param {{shade: string, selected: string, pointed: string, pointedPod: any, colours: import("./colours.js").Colours}} view
   * @param {number} now milliseconds of the page
   */
  constructor(context, model, view, now) {
    this.context = context;
    this.model = model;
    this.view = view;
    this.now = now;
    this.colours = theme();
    this.withPods = true;
    /** Made when the first such node is drawn. @type {CanvasPattern|null} */
    this.draining = this.launching = null;
    /** Something will look different a moment later although nothing changed. */
    this.moving = false;
  }

  title(title, y) {
    const { context, colours } = this;
    context.font = "600 13px system-ui, sans-serif";
    context.fillStyle = colours.text;
    context.textBaseline = "middle";
    context.fillText(title.key, 20, y + 14);
    const wide = context.measureText(title.key).width;
    let cost = 0;
    for (const node of title.members) cost += node.price;
    context.font = "12px system-ui, sans-serif";
    context.fillStyle = colours.dim;
    const count = title.members.length;
    context.fillText(whole(count) + (count === 1 ? " node" : " nodes") + (cost ? " · " + money(cost) + "/h" : ""), 20 + wide + 12, y + 14);
  }

  /** Small boxes, colour by colour: thousands of them in a few milliseconds. */
  plain(rows, top, tall) {
    const { context, colours } = this;
    const share = ([used, all]) => (all > 0 ? Math.min(1, used / all) : 0);
    const half = tall / 2;
    context.fillStyle = colours.free;
    for (const row of rows) for (const { x, width } of row.items) context.fillRect(x, row.y - top, width, row.height);
    context.fillStyle = colours.cpu;
    for (const row of rows) for (const { x, width, node } of row.items) context.fillRect(x, row.y - top, width * share(node.cpu), half);
    context.fillStyle = colours.mem;
    for (const row of rows) for (const { x, width, node } of row.items) context.fillRect(x, row.y - top + half, width * share(node.mem), half);
    for (const row of rows) for (const item of row.items) {
      const state = this.model.state(item.node);
      if (state === "ready") continue;
      this.state(item.node, state, item.x, row.y - top, item.width, row.height, 0);
    }
  }

  node(item, y, height) {
    const { context, colours } = this;
    const { x, width, node } = item;
    const state = this.model.state(node);
    const area = lanes(x, y, width, height);
    context.fillStyle = colours.panel;
    context.fillRect(x, y, width, height);
    for (const lane of [0, 1]) {
      context.fillStyle = colours.free;
      context.fillRect(area.left, area.tops[lane], area.width, area.tall);
      if (this.withPods) {
        this.pods(node, lane, area);
        continue;
      }
      const [used, all] = lane ? node.mem : node.cpu;
      context.fillStyle = lane ? colours.mem : colours.cpu;
      context.fillRect(area.left, area.tops[lane], area.width * (all > 0 ? Math.min(1, used / all) : 0), area.tall);
    }
    this.state(node, state, x, y, width, height, area.head);
  }

  /** What a node's state looks like: launching, draining, being replaced, not managed. */
  state(node, state, x, y, width, height, head) {
    const { context, colours } = this;
    const edge = { launching: colours.new, joining: colours.join, draining: colours.warn, replaced: colours.swap }[state];
    if (state === "foreign") {
      context.globalAlpha = 0.45;
      context.fillStyle = colours.bg;
      context.fillRect(x, y, width, height);
      context.globalAlpha = 1;
    }
    if (state === "draining" || state === "launching") {
      context.globalAlpha = 0.55;
      context.fillStyle = state === "draining" ? (this.draining ??= hatch(context, colours.warn)) : (this.launching ??= hatch(context, colours.new));
      context.fillRect(x, y + head, width, height - head);
      context.globalAlpha = 1;
    }
    if (head && width > 44) this.head(node, state, edge, x, y, width);
    if (edge || height >= 20) {
      context.strokeStyle = edge || colours.line;
      context.lineWidth = edge ? (height >= 14 ? 2 : 1) : 1;
      if (state === "launching" || state === "joining") context.setLineDash([5, 3]);
      context.strokeRect(x + 0.5, y + 0.5, width - 1, height - 1);
      context.setLineDash([]);
    }
  }

  isMarked(node) {
    return node.name === this.view.selected || node.name === this.view.pointed || this.now - (this.model.fresh.get(node.name) ?? -Infinity) < FLASH;
  }

  /** What changes without the cluster changing: that a node is new, and what the person points at or chose. */
  marks({ x, width, node }, y, height) {
    const { context, colours, view } = this;
    const age = this.now - (this.model.fresh.get(node.name) ?? -Infinity);
    if (age < FLASH) {
      this.moving = true;
      context.globalAlpha = 1 - age / FLASH;
      context.strokeStyle = colours.text;
      context.lineWidth = 3;
      context.strokeRect(x - 1.5, y - 1.5, width + 3, height + 3);
      context.globalAlpha = 1;
    }
    if (node.name === view.pointed && view.pointedPod) this.outline(node, lanes(x, y, width, height));
    if (node.name === view.selected || node.name === view.pointed) {
      context.strokeStyle = node.name === view.selected ? colours.text : colours.dim;
      context.lineWidth = 2;
      context.strokeRect(x - 1, y - 1, width + 2, height + 2);
    }
  }

  head(node, state, edge, x, y, width) {
    const { context, colours } = this;
    context.save();
    context.beginPath();
    context.rect(x + 4, y, width - 8, 18);
    context.clip();
    context.textBaseline = "middle";
    context.font = "600 11px system-ui, sans-serif";
    const text = edge ? (width > 110 ? STATES[state] + " · " : "") + (node.type || shortName(node)) : width > 170 ? shortName(node) : node.type || shortName(node);
    const label = fitting(context, text, width - 12);
    context.fillStyle = edge || colours.text;
    context.fillText(label, x + 5, y + 10);
    const used = context.measureText(label).width;
    context.font = "11px system-ui, sans-serif";
    context.fillStyle = colours.dim;
    const more = edge || width <= 170 ? "" : [node.type, node.cap, node.price ? money(node.price) + "/h" : ""].filter(Boolean).join(" · ");
    if (more && used + context.measureText(more).width + 20 < width) {
      context.textAlign = "right";
      context.fillText(more, x + width - 5, y + 10);
    }
    context.restore();
  }

  /** @param {number} lane 0 for CPU, 1 for memory */
  pods(node, lane, area) {
    const { context, colours, view } = this;
    const names = area.tall >= 16;
    eachPod(node, lane, area, (pod, x, y, width, height, meant) => {
      context.globalAlpha = meant ? 0.4 : 1;
      context.fillStyle = pod[5] & DAEMON ? colours.faint : view.shade === "namespace" ? view.colours.of(pod[0]) : ofPriority(pod[4]);
      context.fillRect(x, y, width > 3 ? width - 1 : width, height);
      if (names && width > 44) this.name(pod, x, y, width, height);
    });
    context.globalAlpha = 1;
  }

  /** The pod that is pointed at, in both lanes. */
  outline(node, area) {
    const { context } = this;
    context.strokeStyle = this.colours.text;
    context.lineWidth = 2;
    for (const lane of [0, 1]) {
      eachPod(node, lane, area, (pod, x, y, width, height) => {
        if (pod === this.view.pointedPod) context.strokeRect(x + 0.5, y + 0.5, Math.max(2, width - 2), height - 1);
      });
    }
  }

  name(pod, x, y, width, height) {
    const { context } = this;
    context.fillStyle = this.colours["on-pod"];
    context.font = "10.5px system-ui, sans-serif";
    context.textBaseline = "middle";
    const flag = pod[5] & DO_NOT_DISRUPT ? "⚑ " : "";
    const room = Math.floor((width - (flag ? 24 : 8)) / 6);
    const name = pod[1].length > room ? pod[1].slice(0, Math.max(1, room - 1)) + "…" : pod[1];
    context.fillText(flag + name, x + 4, y + height / 2);
  }
}
