// An answer of the provisioner beside today: figures, nodes, moves, and pods without a place.

import { money, month, price, whole } from "./format.js";
import { el, table } from "./dom.js";

/**
 * The nodes of ours today and then. A consolidation may also take away what the plan itself would make.
 * @param {any[]} nodes of ours today @param {any} reply @param {string[]} removed names
 */
export function outcome(nodes, reply, removed) {
  const commands = reply.consolidation?.commands || [];
  const gone = new Set([...removed, ...commands.flatMap((each) => each.remove)]);
  const made = [...reply.newNodes, ...commands.flatMap((each) => each.newNodes)].filter((node) => !gone.has(node.name));
  const from = new Map();
  for (const node of nodes) if (gone.has(node.name)) for (const pod of node.pods || []) from.set(pod[0] + "/" + pod[1], node.name);
  const finds = (pod, node) => [pod, from.get(pod) || "", node];
  const moves = [
    ...commands.flatMap((each) => each.moved),
    ...reply.placements.map(([pod, node]) => finds(pod, node)),
    ...reply.newNodes.flatMap((node) => node.pods.map((pod) => finds(pod, node.name))),
  ];
  return { kept: nodes.filter((node) => !gone.has(node.name)), removed: nodes.filter((node) => gone.has(node.name)), made, moves };
}

const COLUMNS = [[""], ["Node", "name"], ["$/h", "number"], ["Type, capacity type, zone"]];
const row = (state, tone) => (node) => [el("span", { class: "pill " + tone }, state), el("span", { title: node.name }, node.name), price(node.price), [node.type, node.cap, node.zone].filter(Boolean).join(" ")];

/**
 * The figures are the provisioner's own, those of `plan --live`; the model only names the nodes of today.
 * @param {import("./model.js").Model} model @param {any} reply @param {string[]} removed names of nodes taken away
 */
export function compare(model, reply, removed) {
  const ours = [...model.nodes.values()].filter((node) => node.claim).sort((a, b) => b.price - a.price || (a.name < b.name ? -1 : 1));
  const { kept, removed: gone, made, moves } = outcome(ours, reply, removed);
  const { today, changed } = reply;
  const then = changed.consolidated ?? changed.hourly;
  const difference = then - (today.consolidated ?? today.hourly);
  const consolidated = changed.consolidated === null ? [] : [["$/h after consolidation", money(today.consolidated), money(changed.consolidated)]];
  const figures = table([["", "name"], ["Today"], ["Then"]], [
    ["Nodes", whole(today.nodes), whole(changed.nodes)],
    ["$/h", money(today.hourly), money(changed.hourly)],
    ...consolidated,
    ["A month", month(today.consolidated ?? today.hourly), month(then)],
    ["Difference", "", (difference > 0 ? "+" : difference < 0 ? "−" : "") + money(Math.abs(difference)) + "/h"],
    ["Nodes kept, removed, new", "", [kept.length, gone.length, made.length].map(whole).join(", ")],
    ["Pods that move or find a place", "", whole(moves.length)],
    ["Pods without a place", whole(today.unschedulable), whole(changed.unschedulable)],
  ]);
  figures.className = "compare";
  const parts = [figures];
  if (reply.awaited) parts.push(el("p", {}, "Today includes " + (reply.awaited === 1 ? "1 new node" : reply.awaited + " new nodes") + " for the pods that wait without any change."));
  if (changed.bound) parts.push(el("p", {}, "Whatever nodes are made for these pods, they cost at least " + money(changed.bound) + " an hour."));
  if (reply.consolidation?.timedOut) parts.push(el("p", { class: "problem" }, "The time was over before every node was considered."));
  if (reply.unschedulable.length) parts.push(el("h3", {}, "Pods without a place"), table([["Pod", "name"], ["Why", "why"]], reply.unschedulable));
  const side = (title, changed, label) => el("div", { class: "card" }, el("h3", {}, title), table(COLUMNS, [...changed, ...kept.map(row("kept", ""))]), changed.length + kept.length ? null : el("p", { class: "empty" }, label));
  parts.push(el("div", { class: "two sides" }, side("Nodes today", gone.map(row("removed", "warn")), "None"), side("Nodes then", made.map(row("new", "new")), "None")));
  for (const command of reply.consolidation?.commands || []) {
    parts.push(el("h3", {}, command.reason + ": " + command.remove.join(", ")), el("p", {}, "saves " + money(command.saving) + "/h, " + command.moved.length + (command.moved.length === 1 ? " pod moves" : " pods move")));
  }
  if (moves.length) parts.push(el("h3", {}, "Moves"), table([["Pod", "name"], ["From"], ["To"]], moves));
  if (reply.consolidation?.staying.length) parts.push(el("h3", {}, "Nodes kept, and why"), table([["Node", "name"], ["Why", "why"]], reply.consolidation.staying));
  return parts;
}
