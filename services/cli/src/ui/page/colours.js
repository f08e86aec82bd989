// Colours that stay apart for colour-blind people (after Okabe and Ito), and the theme's own.

/** For pods and shares of the cost, theme by theme: names are readable on them, and they stand out from what is free. */
const APART = {
  dark: ["#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#f0e442", "#5a7fe0", "#d55e00", "#9aa5b1"],
  light: ["#1f77ab", "#9a5f00", "#007a59", "#a3497f", "#6f6a00", "#0b3f9c", "#b84300", "#5c6b7a"],
};
const MOST_APART = APART.dark.length;
/** Least priority, which of the colours, and in a word. */
const RANKS = [[1000000000, 6, "system"], [1000, 1, "high"], [1, 4, "raised"], [0, 0, "normal"], [-Infinity, 7, "low"]];

let chosen = APART.dark;

/** @param {string} name "dark" or "light" */
export function useTheme(name) {
  document.documentElement.dataset.theme = name;
  chosen = name === "light" ? APART.light : APART.dark;
}

/** The first names get colours of their own, the others share by their letters. */
export class Colours {
  constructor() {
    /** @type {Map<string, number>} */
    this.known = new Map();
  }

  /** @param {string} name */
  of(name) {
    let number = this.known.get(name);
    if (number === undefined) {
      let sum = 7;
      for (let i = 0; i < name.length; i++) sum = (sum * 31 + name.charCodeAt(i)) >>> 0;
      number = this.known.size < MOST_APART ? this.known.size : sum % MOST_APART;
      this.known.set(name, number);
    }
    return chosen[number];
  }
}

/** @param {number} priority */
export function ofPriority(priority) {
  return chosen[(RANKS.find((each) => priority >= each[0]) || RANKS[3])[1]];
}

/** Colour and word of each rank of priorities. @returns {[string, string][]} */
export function ranks() {
  return RANKS.map(([, number, word]) => [chosen[number], word]);
}

/** The theme's colours as the style sheet has them now. */
export function theme() {
  const style = getComputedStyle(document.documentElement);
  const names = ["bg", "panel", "raised", "line", "text", "dim", "faint", "free", "cpu", "mem", "on-pod", "accent", "good", "warn", "bad", "new", "join", "swap"];
  /** @type {Record<string, string>} */
  const all = {};
  for (const name of names) all[name] = style.getPropertyValue("--" + name).trim();
  return all;
}

/** Slanted lines on nothing. @param {CanvasRenderingContext2D} context @param {string} colour */
export function hatch(context, colour) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 8;
  const on = tile.getContext("2d");
  on.strokeStyle = colour;
  on.lineWidth = 2;
  on.beginPath();
  for (const shift of [-8, 0, 8]) {
    on.moveTo(shift, 8);
    on.lineTo(shift + 8, 0);
  }
  on.stroke();
  return context.createPattern(tile, "repeat");
}
