/**
 * What rounding explains of one element of a nest: its value in float64, with a bound on the error
 * of any float32 kernel (running error analysis: Higham, "Accuracy and Stability of Numerical
 * Algorithms", 3.3). A sum is measured by the size of its terms: where it nearly cancels, a right
 * result in another order of addition may be far from the loop's by its own size.
 */

/** @import { Formula, Nest } from "./plan.js" */
/** `at`: the iteration of each loop; `factor` of the size of n terms that bounds the rounding of their sum. @typedef {{inputs: Float32Array[], scalars: Float32Array, at: number[], terms: number, rounding: number, factor: (n: number) => number, mixed: boolean}} Scope */
/** A truth value is 1 or 0, its error Infinity where it may be the other. @typedef {[value: number, error: number]} Bounded */

const UNIT = 2 ** -24;
/** WGSL's division and square root may be off by some units in the last place. */
const FUNCTIONS = 8 * UNIT;
/** Lambda of Higham and Mary, "A New Approach to Probabilistic Rounding Error Analysis": of a bound that fails once in exp(32). */
const CONFIDENCE = 8;
/** Denormals may be flushed to zero. */
const TINY = 1e-37;
/** Partial sums of terms of mixed signs go this many times the root of their squares beyond the sum. */
const WALK = 4;

/** @type {Record<string, (x: number, y: number) => boolean>} */
const COMPARED = { lt: (x, y) => x < y, le: (x, y) => x <= y, gt: (x, y) => x > y, ge: (x, y) => x >= y, eq: (x, y) => x === y, ne: (x, y) => x !== y };

/** Thrown where no finite bound is known: nothing is explained then, since behind a min any number would be. */
const UNBOUNDED = Symbol("unbounded");
const bounded = (/** @type {number} */ error) => {
  if (error === Infinity) throw UNBOUNDED;
  return error;
};

const always = (/** @type {number} */ n) => (n * UNIT < 0.5 ? (n * UNIT) / (1 - n * UNIT) : Infinity);
const probably = (/** @type {number} */ n) => Math.min(always(n), Math.expm1(CONFIDENCE * Math.sqrt(n) * UNIT));

/**
 * Whether both a kernel's result and the loop's are roundings of what the nest says, as far as a bound is known.
 * @param {Nest} nest @param {number} output @param {number} element
 * @param {Uint8Array[]} inputs of the nest, a last one of its scalars
 * @param {number} ours @param {number} theirs
 * @param {boolean} mixed whether the terms of sums are made up, and so of mixed signs in any order
 */
export function explained(nest, output, element, inputs, ours, theirs, mixed) {
  const at = [];
  for (let rest = element, dims = nest.outputs[output].dims, d = dims.length - 1; d >= 0; rest = Math.floor(rest / dims[d--][1])) at[d] = rest % dims[d][1];
  const given = inputs.map((bytes) => new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4));
  const scope = { inputs: given, scalars: given[nest.inputs.length], at, terms: nest.terms, mixed };
  try {
    // The order of a kernel is not known, but that it is a tree of many sums; a loop may add one by one.
    const [value, error] = evaluate(nest.outputs[output].formula, { ...scope, rounding: nest.rounding, factor: probably });
    if (!(Math.abs(ours - value) <= error + TINY)) return false;
    const [, most] = evaluate(nest.outputs[output].formula, { ...scope, rounding: 0, factor: mixed ? probably : always });
    return Math.abs(theirs - value) <= most + TINY;
  } catch (reason) {
    if (reason === UNBOUNDED) return false;
    throw reason;
  }
}

/** @param {Formula} formula @param {Scope} scope @returns {Bounded} */
function evaluate(formula, scope) {
  const [name, ...rest] = formula;
  if (name === "const") return [new Float32Array(Uint32Array.of(rest[0]).buffer)[0], 0];
  if (name === "scalar") return [scope.scalars[rest[0]], 0];
  if (name === "load") {
    const [input, first, ...steps] = rest;
    return [scope.inputs[input][steps.reduce((/** @type {number} */ sum, /** @type {number[]} */ [loop, step]) => sum + step * scope.at[loop], first)], 0];
  }
  if (name === "reduce") return added(iterated(rest[0], rest[1], scope), scope);
  const parts = rest.map((/** @type {Formula} */ part) => evaluate(part, scope));
  // Its terms may be added one by one to those of the reductions in it.
  return name === "sum" ? added(parts, { ...scope, mixed: false }, scope.terms) : operation(name, parts, scope.rounding);
}

/** The terms of a reduction. @param {[loop: number, extent: number][]} loops @param {Formula} term @param {Scope} scope @returns {Generator<Bounded>} */
function* iterated([first, ...others], term, scope) {
  if (!first) return void (yield evaluate(term, scope));
  for (let i = 0; i < first[1]; i++) {
    scope.at[first[0]] = i;
    yield* iterated(others, term, scope);
  }
}

/** @param {Iterable<Bounded>} terms @param {Scope} scope @param {number} [count] of others that are added with them @returns {Bounded} */
function added(terms, { factor, mixed }, count = 0) {
  let [sum, error, size, squares] = [0, 0, 0, 0];
  for (const [value, own] of terms) {
    sum += value;
    error += own;
    size += Math.abs(value);
    squares += value * value;
    count++;
  }
  if (Math.abs(sum) === Infinity) return [sum, error];
  return [sum, error + bounded(factor(count)) * (mixed ? Math.min(size, Math.abs(sum) + WALK * Math.sqrt(squares)) : size)];
}

/** @param {string} name @param {Bounded[]} parts @param {number} rounding of what is multiplied @returns {Bounded} */
function operation(name, parts, rounding) {
  const [[x, ex], [y, ey] = [0, 0], [z, ez] = [0, 0]] = parts;
  if (name in COMPARED) return [Number(COMPARED[name](x, y)), ex + ey && Math.abs(x - y) <= ex + ey ? Infinity : 0];
  // What is infinite is not rounded: with an infinite error any number would do behind a min.
  const rounded = (/** @type {number} */ value, /** @type {number} */ error, unit = UNIT) => /** @type {Bounded} */ ([value, Math.abs(value) === Infinity ? error : error + unit * Math.abs(value)]);
  const clipped = (/** @type {typeof Math.max} */ of) => /** @type {Bounded} */ ([of(x, y), Math.max(of(x + ex, y + ey) - of(x, y), of(x, y) - of(x - ex, y - ey))]);
  switch (name) {
    case "add":
      return rounded(x + y, ex + ey);
    case "sub":
      return rounded(x - y, ex + ey);
    case "mul":
      return rounded(x * y, Math.abs(x) * ey + Math.abs(y) * ex + ex * ey, UNIT + rounding);
    case "div":
      return rounded(x / y, bounded(Math.abs(y) > ey ? (ex + Math.abs(x / y) * ey) / (Math.abs(y) - ey) : Infinity), FUNCTIONS);
    case "sqrt":
      return rounded(Math.sqrt(x), ex ? (x > ex ? ex / Math.sqrt(x - ex) : Math.sqrt(Math.abs(x) + ex)) : 0, FUNCTIONS);
    case "min":
      return clipped(Math.min);
    case "max":
      return clipped(Math.max);
    case "abs":
      return [Math.abs(x), ex];
    case "neg":
      return [-x, ex];
    case "ceil":
    case "floor":
    case "trunc":
      return [Math[name](x), ex ? 1 + ex : 0];
    case "round":
      return [even(x), ex ? 1 + ex : 0];
    case "not":
      return [Number(!x), ex];
    case "select":
      return ex ? [x ? y : z, Math.abs(y - z) + ey + ez] : x ? [y, ey] : [z, ez];
    default:
      throw new Error(`A plan has the operation ${name}, which is not known here.`);
  }
}

/** To the nearest whole number, ties to even. @param {number} x */
function even(x) {
  const near = Math.round(x);
  return near - x === 0.5 && near % 2 ? near - 1 : near;
}
