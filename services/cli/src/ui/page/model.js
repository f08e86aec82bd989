// The picture as the command merges it: maps by name, brought up to date by patches of the same shape.

/**
 * @typedef {[string, string, number, number, number, number]} Pod namespace, name, CPU, memory, priority, flags
 * @typedef {{claim: string, pool: string, type: string, zone: string, cap: string, price: number, cpu: [number, number],
 *   mem: [number, number], phase: string, created?: number, waits?: string, taints?: string[],
 *   conditions?: [string, string, string][], pods: Pod[], meant?: Pod[],
 *   nominated?: boolean, buffers?: boolean, name: string}} Node
 */

export const DAEMON = 1;
export const DO_NOT_DISRUPT = 2;
export const TERMINATING = 4;

const MAPS = ["nodes", "pending", "decisions", "drains", "candidates", "services"];
const LISTS = ["budgets", "unavailable", "shifted"];
/** Conditions that are good when they hold; every other one is trouble when it holds, as Kubernetes names them. */
const GOOD = ["Launched", "Registered", "Initialized", "Consolidatable", "ConsistentStateFound", "Drained", "VolumesDetached"];

export class Model {
  constructor() {
    for (const part of MAPS) this[part] = new Map();
    for (const part of LISTS) this[part] = [];
    this.history = [];
    this.plan = null;
    /** @type {{amount?: number, problem?: string, at: number}|null} */
    this.bound = null;
    /** When each node that came while we looked came, in milliseconds of the page. */
    this.fresh = new Map();
    this.version = 0;
    /** The moment that a file shows, in seconds; a live page shows the present. */
    this.frozenAt = 0;
    this.disrupted = new Map();
    this.drainOf = new Map();
  }

  /** Takes in a patch. @param {any} patch @param {number} now milliseconds of the page */
  apply(patch, now = 0) {
    this.version++;
    if (patch.full) {
      for (const part of MAPS) this[part].clear();
      this.history = [];
      this.fresh.clear();
    }
    for (const part of MAPS) {
      const map = this[part];
      for (const [key, value] of Object.entries(patch[part] || {})) {
        if (value === null) {
          map.delete(key);
          if (part === "nodes") this.fresh.delete(key);
          continue;
        }
        value.name = value.name || key;
        if (part === "nodes" && !patch.full && !map.has(key)) this.fresh.set(key, now);
        map.set(key, value);
      }
    }
    for (const part of LISTS) if (patch[part]) this[part] = patch[part];
    if (patch.history) this.history.push(...patch.history);
    if (patch.plan) this.plan = patch.plan;
    if (patch.bound || patch.full) this.bound = patch.bound || null;
    if (patch.full || patch.decisions) {
      this.disrupted.clear();
      for (const each of this.decisions.values()) {
        if (each.kind === "disruption" && !each.ended) for (const node of each.remove) this.disrupted.set(node, each);
      }
    }
    if (patch.full || patch.drains) {
      this.drainOf = new Map();
      for (const [claim, drain] of this.drains) {
        this.drainOf.set(claim, drain);
        if (drain.node) this.drainOf.set(drain.node, drain);
      }
    }
  }

  /** Seconds since the epoch. */
  now() {
    return this.frozenAt || Date.now() / 1000;
  }

  /** @param {Node} node @returns {"ready"|"launching"|"joining"|"draining"|"replaced"|"foreign"} */
  state(node) {
    if (!node.claim) return "foreign";
    if (node.phase === "deleting" || this.drainOf.has(node.claim)) return "draining";
    if (node.phase === "created" || node.phase === "launched") return "launching";
    if (node.phase === "registered") return "joining";
    return this.disrupted.has(node.name) ? "replaced" : "ready";
  }

  /** What a node that is not simply there waits for, in a sentence. @param {Node} node */
  waits(node) {
    const state = this.state(node);
    if (state === "launching" || state === "joining") return node.waits ? "waits for " + node.waits : "";
    if (state === "draining") {
      const drain = this.drainOf.get(node.claim);
      if (!drain) return "is being deleted";
      const first = drain.waiting[0];
      return drain.phase + ", " + drain.gone + " of " + drain.total + " pods gone" + (first ? "; " + first[2] : "");
    }
    if (state === "replaced") {
      const command = this.disrupted.get(node.name);
      return command.reason + ": " + command.phase + (command.detail ? ", " + command.detail : "");
    }
    return "";
  }

  /**
   * Conditions of the Node and its NodeClaim, trouble first. The provisioner's are streamed and so the newest; disruption knows more.
   * @param {Node} node @returns {{type: string, status: string, reason: string, trouble: boolean}[]}
   */
  conditions(node) {
    const all = new Map();
    for (const each of this.candidates.get(node.name)?.conditions || []) all.set(each[0], each);
    for (const each of node.conditions || []) {
      const known = all.get(each[0]);
      all.set(each[0], known?.[1] === each[1] && known[2] ? known : each);
    }
    const list = [...all.values()].map(([type, status, reason]) => {
      const good = type.endsWith("Ready") || GOOD.includes(type);
      return { type, status, reason, trouble: good ? status !== "True" && type !== "Consolidatable" : status === "True" };
    });
    return list.sort((a, b) => Number(b.trouble) - Number(a.trouble));
  }

  sums() {
    const sum = { nodes: 0, ours: 0, pods: 0, price: 0, waste: 0, unpriced: 0, cpu: [0, 0], mem: [0, 0] };
    for (const node of this.nodes.values()) {
      sum.nodes++;
      sum.pods += node.pods.length;
      if (!node.claim) continue;
      sum.ours++;
      sum.price += node.price;
      sum.waste += waste(node);
      if (!node.price) sum.unpriced++;
      for (const i of [0, 1]) {
        sum.cpu[i] += node.cpu[i];
        sum.mem[i] += node.mem[i];
      }
    }
    return sum;
  }
}

/** The part of the price that is for what no pod requests. @param {Node} node */
export function waste(node) {
  const free = ([used, all]) => (all > 0 ? Math.max(0, all - used) / all : 0);
  return Math.floor(node.price * Math.min(free(node.cpu), free(node.mem)));
}
