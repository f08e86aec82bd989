// What was decided, newest first, each with its steps.

import { capital, clock, duration, money } from "./format.js";
import { el } from "./dom.js";

const KINDS = { launch: "Launch", disruption: "Disruption", interruption: "Interruption", removal: "Removal" };
/** Ends that did not bring about what was decided, by kind and phase. */
const FAILED = { "disruption rolled back": "bad", "disruption given up": "warn", "disruption nodes gone": "warn", "launch gone": "bad" };
const MOST_SHOWN = 150;

export class DecisionsView {
  /** @param {import("./model.js").Model} model @param {string|undefined} jaeger */
  constructor(model, jaeger) {
    this.model = model;
    this.jaeger = /^https?:\/\//.test(jaeger || "") ? jaeger.replace(/\/+$/, "") : "";
    this.kind = "";
    /** @type {Map<string, {element: HTMLElement, shown: any}>} */
    this.entries = new Map();
    const choose = el("select", { "aria-label": "Kind", onchange: (event) => ((this.kind = event.target.value), this.update()) }, el("option", { value: "" }, "All decisions"), ...Object.entries(KINDS).map(([value, title]) => el("option", { value }, title + "s")));
    this.list = el("ol", { class: "timeline" });
    this.none = el("p", { class: "empty" }, "Nothing was decided yet. Launches, disruption, interruptions and removals appear here as they happen.");
    this.root = el("section", { id: "view-decisions", role: "tabpanel", "aria-label": "Decisions" }, el("p", {}, choose), this.none, this.list);
  }

  update() {
    if (this.root.hidden) return;
    const all = [...this.model.decisions].filter(([, each]) => !this.kind || each.kind === this.kind);
    all.sort((a, b) => b[1].at - a[1].at || (a[0] < b[0] ? -1 : 1));
    const shown = all.slice(0, MOST_SHOWN);
    this.none.hidden = shown.length > 0;
    const keep = new Set(shown.map(([key]) => key));
    for (const key of this.entries.keys()) if (!keep.has(key)) this.entries.delete(key);
    // Entries that did not change stay as they are: with focus, and with their details open.
    const elements = shown.map(([key, decision]) => {
      const known = this.entries.get(key);
      if (known?.shown === decision) return known.element;
      const element = this.entry(decision, known?.element.querySelector("details")?.open);
      this.entries.set(key, { element, shown: decision });
      return element;
    });
    elements.forEach((element, i) => {
      if (this.list.children[i] !== element) this.list.insertBefore(element, this.list.children[i] || null);
    });
    while (this.list.children.length > elements.length) this.list.lastChild.remove();
  }

  entry(decision, open) {
    const names = (list) => (list.length > 3 ? list.slice(0, 3).join(", ") + " and " + (list.length - 3) + " more" : list.join(", "));
    const title = {
      launch: () => "Launch " + names(decision.add),
      disruption: () => (decision.add.length ? "Replace " : "Remove ") + names(decision.remove) + (decision.add.length ? " by " + names(decision.add) : ""),
      interruption: () => "Warning about " + (names(decision.remove) || "no node of this cluster"),
      removal: () => "Drain " + names(decision.remove),
    }[decision.kind]();
    const failed = FAILED[decision.kind + " " + decision.phase];
    const tone = decision.kind === "interruption" ? "warn" : failed || (decision.ended ? "good" : { launch: "new", disruption: "swap" }[decision.kind] || "warn");
    // What failed saved nothing.
    const saving = failed ? 0 : decision.realised ?? decision.saving;
    const last = decision.steps[decision.steps.length - 1]?.[0] ?? decision.at;
    const facts = [decision.reason, decision.method, decision.moved ? decision.moved + (decision.moved === 1 ? " pod" : " pods") + (decision.kind === "launch" ? "" : " move") : "", decision.ended ? "took " + duration(last - decision.at) : ""];
    const details = el("details", {}, el("summary", {}, decision.steps.length + (decision.steps.length === 1 ? " step" : " steps")), el("ul", {}, ...decision.steps.map(([at, what]) => el("li", {}, el("time", {}, clock(at)), what))));
    if (open ?? !decision.ended) details.open = true;
    return el(
      "li",
      { class: decision.kind + (decision.ended ? "" : " under-way") },
      el("time", {}, clock(decision.at)),
      el("span", { class: "dot", "aria-hidden": "true" }),
      el(
        "div",
        { class: "event" },
        el("h3", {}, title, el("span", { class: "pill " + tone }, capital(decision.phase)), saving ? el("span", { class: "money" + (saving > 0 ? " saves" : "") }, (saving > 0 ? "−" : "+") + money(Math.abs(saving)) + "/h") : null),
        el("p", {}, facts.filter(Boolean).join(" · ")),
        decision.detail && el("p", {}, decision.detail),
        details,
        this.link(decision),
      ),
    );
  }

  link(decision) {
    if (!this.jaeger || !decision.trace) return null;
    const [service, tag, value] = decision.trace;
    const href = this.jaeger + "/search?service=karpenter-" + encodeURIComponent(service) + "&lookback=2d&tags=" + encodeURIComponent(JSON.stringify({ [tag]: value }));
    return el("p", {}, el("a", { href, target: "_blank", rel: "noreferrer" }, "Trace in Jaeger"));
  }
}
