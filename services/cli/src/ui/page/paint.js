// One frame of the nodes' canvas.

import { money, whole } from "./format.js";
import { hatch, rank, theme } from "./colours.js";
import { DAEMON, DO_NOT_DISRUPT } from "./model.js";

export const STATES = { launching: "Launching", joining: "Registering", draining: "Draining", replaced: "Being replaced", foreign: "Not managed" };
const FLASH = 2200;

export class Painter {
  /**
   * @param {CanvasRenderingContext2D} context
   * @param {import("./model.js").Model} model
   * @param {{shade: string, selected: string, pointed: string, colours: import("./colours.js").Colours}} view
   * @param {number} now milliseconds of the page
   */
  constructor(context, model, view, now) {
    this.context = context;
    this.model = model;
    this.view = view;
    this.now = now;
    this.colours = theme();
    this.draining = hatch(context, this.colours.warn);
    this.launching = hatch(context, this.colours.new);
    this.withPods = true;
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
      if (state === "ready" && !this.isMarked(item.node)) continue;
      this.state(item.node, state, item.x, row.y - top, item.width, row.height, 0);
    }
  }

  isMarked(node) {
    return node.name === this.view.selected || node.name === this.view.pointed || this.now - (this.model.fresh.get(node.name) ?? -Infinity) < FLASH;
  }

  node(item, y, height) {
    const { context, colours } = this;
    const { x, width, node } = item;
    const state = this.model.state(node);
    const head = height >= 36 ? 17 : 0;
    const inset = height >= 20 && width >= 24 ? 3 : 1;
    const lane = (height - head - inset * 2 - 2) / 2;
    const inner = width - inset * 2;
    const top = y + head + inset;
    const second = top + lane + 2;
    context.fillStyle = colours.panel;
    context.fillRect(x, y, width, height);
    context.fillStyle = colours.free;
    context.fillRect(x + inset, top, inner, lane);
    context.fillRect(x + inset, second, inner, lane);
    if (this.withPods) {
      this.pods(node, 2, node.cpu, x + inset, top, inner, lane);
      this.pods(node, 3, node.mem, x + inset, second, inner, lane);
    } else {
      const share = ([used, all]) => (all > 0 ? Math.min(1, used / all) : 0);
      context.fillStyle = colours.cpu;
      context.fillRect(x + inset, top, inner * share(node.cpu), lane);
      context.fillStyle = colours.mem;
      context.fillRect(x + inset, second, inner * share(node.mem), lane);
    }
    this.state(node, state, x, y, width, height, head);
  }

  /** What is special about a node: its state, that it is new, that it was chosen. */
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
      context.fillStyle = state === "draining" ? this.draining : this.launching;
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
    const age = this.now - (this.model.fresh.get(node.name) ?? -Infinity);
    if (age < FLASH) {
      this.moving = true;
      context.globalAlpha = 1 - age / FLASH;
      context.strokeStyle = colours.text;
      context.lineWidth = 3;
      context.strokeRect(x - 1.5, y - 1.5, width + 3, height + 3);
      context.globalAlpha = 1;
    }
    if (node.name === this.view.selected || node.name === this.view.pointed) {
      context.strokeStyle = node.name === this.view.selected ? colours.text : colours.dim;
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
    const label = edge ? (width > 110 ? STATES[state] + " · " : "") + (node.type || node.name) : width > 170 ? node.name : node.type || node.name;
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

  /** Pods side by side by what they request. @param {number} what 2 for CPU, 3 for memory */
  pods(node, what, [, all], x, y, width, height) {
    const { context, colours } = this;
    if (!all) return;
    let left = x;
    const end = x + width;
    const names = height >= 18;
    for (const pods of [node.pods, node.meant || []]) {
      const meant = pods !== node.pods;
      if (meant) context.globalAlpha = 0.4;
      for (const pod of pods) {
        const wide = (pod[what] / all) * width;
        if (wide < 0.25) {
          left += wide;
          continue;
        }
        const shown = Math.min(wide, end - left);
        if (shown <= 0) break;
        const daemon = pod[5] & DAEMON;
        context.fillStyle = daemon ? colours.faint : this.view.shade === "namespace" ? this.view.colours.of(pod[0]) : rank(pod[4])[1];
        context.fillRect(left, y, wide > 3 ? shown - 1 : shown, height);
        if (names && wide > 46) this.name(pod, left, y, shown, height);
        left += wide;
      }
      context.globalAlpha = 1;
    }
  }

  name(pod, x, y, width, height) {
    const { context } = this;
    context.fillStyle = "#0b1016";
    context.font = "10.5px system-ui, sans-serif";
    context.textBaseline = "middle";
    const room = Math.floor((width - 8) / 6);
    const name = pod[1].length > room ? pod[1].slice(0, Math.max(1, room - 1)) + "…" : pod[1];
    context.fillText((pod[5] & DO_NOT_DISRUPT ? "⚑ " : "") + name, x + 4, y + height / 2);
  }
}
