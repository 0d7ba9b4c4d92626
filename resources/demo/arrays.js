/** Arrays: the sample, zeros, drawn numbers, or the visitor's own. */
import { Tensor } from "../sdk/session.js";
import { choice, field, make } from "./dom.js";

/** @import { Port, Source } from "./types.js" */

/** @param {string} text @param {number} size @returns {number[]} */
export function numbersOf(text, size) {
  const numbers = (text.match(/[^\s,;[\]]+/g) ?? []).map(Number);
  if (numbers.some(Number.isNaN)) throw new Error("Give numbers with commas or spaces between them.");
  if (numbers.length !== size) throw new Error(`These are ${numbers.length} numbers; the input takes ${size}.`);
  return numbers;
}

/**
 * @param {Port} port
 * @param {Tensor | null} sample
 * @returns {Source}
 */
export function arraySource({ name, type, shape }, sample) {
  const size = shape.reduce((n, d) => n * d, 1);
  const whole = !type.startsWith("float");
  /** @type {[string, string][]} */
  const choices = [
    ["zeros", "zeros"],
    ["ones", "ones"],
    ["own", "numbers of your own"],
  ];
  if (!whole) choices.unshift(["random", "random, −1 to 1"]);
  if (sample) choices.unshift(["sample", "the sample"]);
  const from = choice(`${type}, ${shape.join(" × ") || "one number"}`, choices, sample ? "sample" : "zeros");
  const own = make("textarea", { spellcheck: false });
  const shown = field(`${size} numbers, row by row`, own);
  shown.hidden = true;
  from.control.addEventListener("change", () => (shown.hidden = from.control.value !== "own"));
  /** @returns {Tensor} */
  const tensor = () => {
    const kind = from.control.value;
    if (kind === "sample" && sample) return sample;
    const fill = kind === "random" ? () => Math.random() * 2 - 1 : () => (kind === "ones" ? 1 : 0);
    const values = kind === "own" ? numbersOf(own.value, size) : Array.from({ length: size }, fill);
    return new Tensor(type, whole ? values.map(Math.round) : values, shape);
  };
  return {
    element: make("div", { className: "part" }, make("h2", {}, name), from.element, shown),
    label: () => (from.control.value === "sample" ? "the sample inputs" : from.control.value),
    feeds: async () => ({ [name]: tensor() }),
  };
}
