/** Sizes that follow from open dimensions, as nnjit_studio/model/open_plan.py writes them. */
import { EngineError } from "../errors.js";

/** @import { OpenPlan, OpenPort, Scalar, Size, Tensor } from "../../types/engine.js" */
/** @typedef {Readonly<Record<string, number>>} Dims sizes by the dimensions' names */

/** @type {Record<string, (a: number, b: number) => number>} */
const OPERATIONS = { floordiv: (a, b) => Math.floor(a / b), min: Math.min, max: Math.max };
/** Of a dimension that nobody bounds. */
const LARGEST = 2 ** 30;

/**
 * The number that a size is.
 * @param {Size} size a number, or terms `[coefficient, atom, ...]`
 * @param {Dims} dims
 * @returns {number}
 */
export function valueOf(size, dims) {
  if (typeof size === "number") return size;
  let total = 0;
  // by index: a new size runs this before it was optimised, and taking terms apart costs twice as much then
  for (let i = 0; i < size.length; i++) {
    const term = size[i];
    let product = /** @type {number} */ (term[0]);
    for (let j = 1; j < term.length; j++) {
      const atom = /** @type {string | [string, Size, Size]} */ (term[j]);
      product *= typeof atom === "string" ? dims[atom] : OPERATIONS[atom[0]](valueOf(atom[1], dims), valueOf(atom[2], dims));
    }
    total += product;
  }
  return total;
}

const bits = new DataView(new ArrayBuffer(4));

/**
 * A parameter of a kernel, as an i32.
 * @param {Scalar} scalar
 * @param {Dims} dims
 */
export function scalarOf({ kind, size, over }, dims) {
  const n = valueOf(size, dims);
  if (kind === "int") return n;
  const [a, by] = kind === "inverse" ? [1, n] : [n, over ? valueOf(over, dims) : 1];
  bits.setFloat32(0, by && a / by);
  return bits.getInt32(0);
}

/** What a size is called: a number, or its formula. @param {Size} size @returns {number | string} */
export function textOf(size) {
  if (typeof size === "number") return size;
  const atom = (/** @type {any} */ a) => (typeof a === "string" ? a : `${a[0]}(${textOf(a[1])}, ${textOf(a[2])})`);
  const terms = size.map(([c, ...atoms]) => (atoms.length && c === 1 ? [] : [c]).concat(atoms.map(atom)).join("*"));
  return terms.join(" + ");
}

/**
 * The sizes of the dimensions that inputs have.
 * @param {OpenPlan} plan
 * @param {Tensor[]} inputs in any order
 * @returns {Dims}
 */
export function dimsOf(plan, inputs) {
  /** @type {Record<string, number>} */
  const dims = {};
  const refuse = (/** @type {OpenPort} */ { name, shape }, /** @type {number[]} */ found) =>
    new EngineError(`The input "${name}" has shape [${found}], the model wants [${shape.map(textOf).join(", ")}].`, sizesText(plan, dims));
  const given = plan.inputs.map((port) => {
    const found = inputs.find((t) => t.name === port.name)?.shape;
    if (!found) throw new EngineError(`The input "${port.name}" is missing.`, `The model's inputs are ${plan.inputs.map((p) => p.name).join(", ")}.`);
    if (found.length !== port.shape.length) throw refuse(port, found);
    port.shape.forEach((size, axis) => {
      const dim = textOf(size); // of a sum or a product it is no dimension's name
      if (dim in plan.example) dims[dim] ??= found[axis];
    });
    return found;
  });
  // Behind all dimensions, for a size may be a sum of others.
  plan.inputs.forEach((port, i) => {
    if (port.shape.some((size, axis) => valueOf(size, dims) !== given[i][axis])) throw refuse(port, given[i]);
  });
  checkDims(plan, dims);
  return dims;
}

/**
 * Refuses sizes that the model does not take.
 * @param {OpenPlan} plan
 * @param {Dims} dims
 */
export function checkDims(plan, dims) {
  for (const { name, low, high, step } of plan.dims) {
    const n = dims[name];
    if (!(Number.isSafeInteger(n) && n >= low && n <= high && n % step === 0))
      throw new EngineError(`The dimension ${name} is ${n}; the model takes ${rangeText({ low, high, step })}.`, "README.txt lists the sizes.");
  }
}

/** @param {{low: number, high: number, step: number}} dim */
export function rangeText({ low, high, step }) {
  const range = high < LARGEST ? `${low} to ${high}` : `${low} or more`;
  return step > 1 ? `${range}, a multiple of ${step}` : range;
}

/** @param {OpenPlan} plan @param {Dims} dims */
function sizesText({ dims: open }, dims) {
  const known = open.filter(({ name }) => name in dims).map(({ name }) => `${name} is ${dims[name]}`);
  return known.length ? `By the inputs before, ${known.join(" and ")}.` : "README.txt lists the sizes.";
}
