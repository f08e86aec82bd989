// What the cluster costs: now, over the time that was watched, by NodePool and capacity type, and what decisions saved.

import { clock, duration, money, month, percent, whole } from "./format.js";
import { Colours, theme } from "./colours.js";
import { waste } from "./model.js";
import { card, el, fitted, table } from "./dom.js";

const DAY = 86400;
/** How the cost is split; an entry of a sample is NodePool, capacity type, micro-dollars an hour. */
const SPLITS = [
  ["By NodePool", (each) => each[0]],
  ["By capacity type", (each) => each[1]],
  ["By NodePool and capacity type", (each) => [each[0], each[1]].filter(Boolean).join(", ")],
];

/** What a command saved after its pods ran again, or what it was expected to save. */
function savingOf(command) {
  return command.realised ?? command.saving ?? 0;
}

export class CostView {
  /** @param {import("./model.js").Model} model */
  constructor(model) {
    this.model = model;
    this.by = 0;
    this.colours = new Colours();
    this.cards = el("div", { class: "cards" });
    this.canvas = el("canvas", { role: "img", "aria-label": "Cost over time" });
    this.key = el("div", { class: "legend" });
    this.tables = el("div", { class: "two" });
    const choose = el("select", { "aria-label": "Split by", onchange: (event) => ((this.by = Number(event.target.value)), this.update()) }, ...SPLITS.map(([title], i) => el("option", { value: i }, title)));
    this.root = el(
      "section",
      { id: "view-cost", role: "tabpanel", "aria-label": "Cost" },
      this.cards,
      el("div", { class: "card wide" }, el("div", { class: "bar" }, choose, this.key), this.canvas),
      el("br"),
      this.tables,
    );
    new ResizeObserver(() => this.update()).observe(this.root);
  }

  update() {
    if (this.root.hidden) return;
    const sum = this.model.sums();
    const { done, since } = this.lastDay();
    const saved = done.reduce((total, each) => total + savingOf(each), 0);
    const possible = [...this.model.candidates.values()].map((each) => each.saving || 0);
    const best = possible.length ? Math.max(0, ...possible) : 0;
    this.cards.replaceChildren(
      card("Cost now", money(sum.price) + "/h", month(sum.price) + " a month" + (sum.unpriced ? ", " + sum.unpriced + " nodes without a price" : "")),
      card("Waste", money(sum.waste) + "/h", percent(sum.waste, sum.price) + " of the cost is for what no pod requests"),
      card("Saved by decisions", money(saved) + "/h", whole(done.length) + (done.length === 1 ? " command" : " commands") + ", " + since),
      card("Could be saved", money(best) + "/h", "by the best single node, as disruption last saw it"),
      this.boundCard(),
    );
    this.chart();
    this.lists(done);
  }

  /** Commands that ended in the last day, and since when they are known. */
  lastDay() {
    const now = this.model.now();
    const known = [...this.model.decisions.values()].filter((each) => each.kind === "disruption" && each.ended && each.at >= now - DAY);
    const first = Math.min(this.model.history[0]?.at ?? now, ...known.map((each) => each.at));
    const since = now - first >= DAY - 3600 ? "in the last day" : "known since " + clock(first) + " (" + duration(now - first) + ")";
    return { done: known.filter((each) => each.phase === "done"), since };
  }

  boundCard() {
    const { bound } = this.model;
    if (!bound) return card("Lower bound", "–", "computing…");
    if (bound.amount === undefined) return card("Lower bound", "–", bound.problem || "none was found in time");
    return card("Lower bound", money(bound.amount) + "/h", "no set of nodes for these pods can cost less; as of " + clock(bound.at));
  }

  chart() {
    const width = this.canvas.parentElement.clientWidth - 34;
    const height = 280;
    if (width < 100) return;
    const context = fitted(this.canvas, width, height);
    const colours = theme();
    context.clearRect(0, 0, width, height);
    const samples = this.model.history;
    if (!samples.length) return;
    const nameOf = (each) => SPLITS[this.by][1](each) || "other";
    const names = [...new Set(samples.flatMap((sample) => sample.by.map(nameOf)))].sort();
    const amount = (sample, name) => sample.by.reduce((total, each) => total + (nameOf(each) === name ? each[2] : 0), 0);
    const now = this.model.now();
    const [from, to] = [samples[0].at, Math.max(now, samples[0].at + 60)];
    const bound = this.model.bound?.amount;
    const most = Math.max(1, bound || 0, ...samples.map((sample) => sample.by.reduce((total, each) => total + each[2], 0))) * 1.12;
    const [left, right, top, bottom] = [64, width - 8, 10, height - 24];
    const x = (at) => left + ((at - from) / (to - from)) * (right - left);
    const y = (value) => bottom - (value / most) * (bottom - top);
    context.font = "11.5px system-ui, sans-serif";
    context.textBaseline = "middle";
    for (let line = 0; line <= 4; line++) {
      const value = (most * line) / 4;
      context.strokeStyle = colours.line;
      context.beginPath();
      context.moveTo(left, y(value));
      context.lineTo(right, y(value));
      context.stroke();
      context.fillStyle = colours.dim;
      context.textAlign = "right";
      context.fillText(money(value), left - 8, y(value));
    }
    for (let mark = 0; mark <= 4; mark++) {
      const at = from + ((to - from) * mark) / 4;
      context.textAlign = mark === 0 ? "left" : mark === 4 ? "right" : "center";
      context.fillText(clock(at), x(at), height - 9);
    }
    context.textAlign = "left";
    const floor = samples.map(() => 0);
    for (const name of names) {
      const roof = samples.map((sample, i) => floor[i] + amount(sample, name));
      const outline = (values, backwards) => {
        const order = samples.map((_, i) => i);
        if (!backwards) for (const i of order) {
          context.lineTo(x(samples[i].at), y(values[i]));
          context.lineTo(x(samples[i + 1]?.at ?? now), y(values[i]));
        }
        else for (const i of order.reverse()) {
          context.lineTo(x(samples[i + 1]?.at ?? now), y(values[i]));
          context.lineTo(x(samples[i].at), y(values[i]));
        }
      };
      context.fillStyle = this.colours.of(name);
      context.globalAlpha = 0.8;
      context.beginPath();
      outline(roof, false);
      outline(floor, true);
      context.fill();
      context.globalAlpha = 1;
      roof.forEach((value, i) => (floor[i] = value));
    }
    if (bound !== undefined) {
      context.strokeStyle = context.fillStyle = colours.text;
      context.fillText("lower bound " + money(bound), left + 6, y(bound) - 8);
      context.lineWidth = 1.5;
      context.setLineDash([6, 4]);
      context.beginPath();
      context.moveTo(left, y(bound));
      context.lineTo(right, y(bound));
      context.stroke();
      context.setLineDash([]);
      context.lineWidth = 1;
    }
    this.key.replaceChildren(...names.map((name) => {
      const dot = el("canvas", { width: 14, height: 12 });
      const on = dot.getContext("2d");
      on.fillStyle = this.colours.of(name);
      on.fillRect(0, 0, 14, 12);
      return el("span", {}, dot, name);
    }));
  }

  lists(done) {
    const split = (key) => {
      const all = new Map();
      for (const node of this.model.nodes.values()) {
        if (!node.claim) continue;
        const name = key(node) || "not known yet";
        const own = all.get(name) || { nodes: 0, price: 0, waste: 0 };
        own.nodes++;
        own.price += node.price;
        own.waste += waste(node);
        all.set(name, own);
      }
      return [...all].sort((a, b) => b[1].price - a[1].price).map(([name, own]) => [name, whole(own.nodes), money(own.price), month(own.price), money(own.waste), percent(own.waste, own.price)]);
    };
    const columns = (first) => [[first, "name"], ["Nodes", "number"], ["$/h", "number"], ["A month", "number"], ["Waste $/h", "number"], ["", "number"]];
    const saved = new Map();
    for (const each of done) {
      const own = saved.get(each.reason) || [0, 0];
      saved.set(each.reason, [own[0] + 1, own[1] + savingOf(each)]);
    }
    this.tables.replaceChildren(
      el("div", { class: "card" }, table(columns("NodePool"), split((node) => node.pool))),
      el("div", { class: "card" }, table(columns("Capacity type"), split((node) => node.cap))),
      el("div", { class: "card" }, table(columns("Instance type"), split((node) => node.type))),
      el("div", { class: "card" }, saved.size ? table([["Decision", "name"], ["Commands", "number"], ["Saved $/h", "number"]], [...saved].map(([reason, [count, sum]]) => [reason, whole(count), money(sum)])) : el("p", { class: "empty" }, "No command has ended in the last day")),
    );
  }
}
