/** Runs ahead of inputs: browsers compile a kernel's fast code only once it has run. */
import { ARRAYS, layoutMemory, PAGE_BYTES, specBytes } from "../plan.js";
import { planAt } from "./plan.js";
import { checkDims } from "./size.js";

/** @import { OpenPlan, Plan, PlanPort, Tensor } from "../../types/engine.js" */
/** @import { Dims } from "./size.js" */
/** @typedef {{stepwise: (inputs: Tensor[]) => Generator<void>, readonly memoryBytes: number}} Stepped */
/**
 * Kernels that run before inputs need them: from the next idle moment on, once an answer was given; a run that comes
 * writes over what a step left, so the run ahead begins again; and never again.
 * @typedef {{goOn: () => void, standAside: () => void, stop: () => void}} Ahead
 */

/** More remainders than this are not tried. */
const MOST_TURNS = 64;
/** Of idle time, what a step has to find. */
const LEAST_IDLE_MS = 2;

/**
 * Inputs of zeros at these sizes and just below, until every kernel that a remainder chooses has come.
 * @param {OpenPlan} open
 * @param {Partial<Dims>} given sizes to begin at; those of the example where one is missing
 * @returns {Generator<Tensor[]>}
 */
export function* warmInputs(open, given) {
  const first = /** @type {Dims} */ ({ ...open.example, ...given });
  checkDims(open, first);
  for (const inputs of turns(open, first)) if (inputs) yield inputs;
}

/**
 * Inputs for one size after the other; null where a size brings no kernel that has not come.
 * @param {OpenPlan} open
 * @param {Dims} first
 * @param {(plan: Plan) => boolean} [fits]
 */
function* turns(open, first, fits = () => true) {
  const wanted = new Set(Object.values(open.kernels).flatMap(({ variants }) => variants.map(({ workload }) => workload)));
  for (const dims of around(open, first)) {
    const plan = planAt(open, dims);
    const before = wanted.size;
    const fit = fits(plan);
    if (fit) for (const { workload } of plan.steps) wanted.delete(workload);
    yield wanted.size < before ? plan.inputs.map(emptyInput) : null;
    if (!wanted.size) return;
  }
}

/** Zeros, or the value that the plan was laid out for. @param {PlanPort} port @returns {Tensor} */
function emptyInput({ spec, value = 0 }) {
  const array = new ARRAYS[spec.dtype](specBytes(spec) / ARRAYS[spec.dtype].BYTES_PER_ELEMENT);
  if (value) array.fill(/** @type {never} */ (typeof array[0] === "bigint" ? BigInt(value) : value));
  return { ...spec, data: new Uint8Array(array.buffer) };
}

/** These sizes, then with one of them smaller, or larger where there is no smaller one. @param {OpenPlan} open @param {Dims} first */
function* around(open, first) {
  yield first;
  for (let turn = 1; turn < MOST_TURNS; turn++)
    for (const { name, low, high, step } of open.dims) {
      const below = first[name] - turn * step;
      const other = below >= low ? below : first[name] + turn * step;
      if (other <= high) yield { ...first, [name]: other };
    }
}

/**
 * Runs all kernels at the smallest sizes while the page is idle, a step of a plan at a time: an answer waits
 * for one step at most. No memory is taken for it.
 * @param {Stepped} engine that holds the model
 * @param {OpenPlan} open
 * @returns {Ahead}
 */
export function aheadOf(engine, open) {
  const lowest = Object.fromEntries(open.dims.map(({ name, low, step }) => [name, Math.ceil(low / step) * step]));
  const runs = turns(open, lowest, (plan) => layoutMemory([plan]).pages * PAGE_BYTES <= engine.memoryBytes);
  /** @type {Tensor[] | null | undefined} of the run that is due */ let inputs;
  /** @type {Generator<void> | null} what is left of it, once it has begun */ let steps;
  let asked = false;
  /** A step, or the choice of the next size; false where no run is left. */
  const step = () => {
    if (!inputs) {
      const { value, done } = runs.next();
      inputs = value ?? null;
      return !done;
    }
    steps ??= engine.stepwise(inputs);
    if (steps.next().done) steps = inputs = null;
    return true;
  };
  const goOn = () => {
    if (asked) return;
    asked = true;
    whenIdle((left_ms) => {
      let more = false;
      try {
        do more = step();
        while (more && left_ms() > LEAST_IDLE_MS);
      } catch {
        more = false; // nobody waits for it; a run that needs the kernel tells what is wrong
      }
      asked = !more;
      if (more) goOn();
    });
  };
  const standAside = () => void (steps = null);
  const stop = () => void ((inputs = null), (asked = true), runs.return());
  return { goOn, standAside, stop };
}

/** Where a browser does not tell, and in workers, between two other tasks. @param {(left_ms: () => number) => void} work */
function whenIdle(work) {
  if ("requestIdleCallback" in globalThis) requestIdleCallback((idle) => work(() => idle.timeRemaining()));
  else setTimeout(work, 0, () => 0);
}
