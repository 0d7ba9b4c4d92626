/** Runs ahead of inputs: browsers compile a kernel's fast code only once it has run. */
import { ARRAYS, layoutMemory, PAGE_BYTES, specBytes } from "../plan.js";
import { planAt } from "./plan.js";
import { checkDims } from "./size.js";

/** @import { Engine } from "../engine.js" */
/** @import { OpenPlan, Plan, PlanPort, Tensor } from "../../types/engine.js" */
/** @import { Dims } from "./size.js" */

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
 */
export class Ahead {
  #engine;
  #turns;
  /** @type {Tensor[] | null} of the run that has begun */ #inputs = null;
  /** @type {Generator<void> | null} what is left of it */ #steps = null;
  #asked = false;
  #over = false;

  /** @param {Engine} engine @param {OpenPlan} open */
  constructor(engine, open) {
    this.#engine = engine;
    const lowest = Object.fromEntries(open.dims.map(({ name, low, step }) => [name, Math.ceil(low / step) * step]));
    this.#turns = turns(open, lowest, (plan) => layoutMemory([plan]).pages * PAGE_BYTES <= engine.memoryBytes);
  }

  /** A run comes: it writes over what a step left for the next one, so the run ahead begins again. */
  standAside() {
    this.#steps = null;
  }

  /** An answer was given: from the next idle moment on. */
  goOn() {
    if (this.#asked || this.#over) return;
    this.#asked = true;
    whenIdle((left_ms) => {
      this.#asked = false;
      try {
        do this.#step();
        while (!this.#over && left_ms() > LEAST_IDLE_MS);
      } catch (e) {
        this.stop();
        console.warn(`nnjit: kernels are not run ahead: ${e}`);
      }
      this.goOn();
    });
  }

  stop() {
    this.#over = true;
  }

  /** A step of a run, or the choice of the next size. */
  #step() {
    if (this.#over) return;
    if (this.#inputs) {
      this.#steps ??= this.#engine.stepwise(this.#inputs);
      if (this.#steps.next().done) this.#steps = this.#inputs = null;
      return;
    }
    const { value, done } = this.#turns.next();
    this.#inputs = value ?? null;
    this.#over = done === true;
  }
}

/** Where a browser does not tell, and in workers, between two other tasks. @param {(left_ms: () => number) => void} work */
function whenIdle(work) {
  if ("requestIdleCallback" in globalThis) requestIdleCallback((idle) => work(() => idle.timeRemaining()));
  else setTimeout(work, 0, () => 0);
}
