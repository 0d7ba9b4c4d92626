/** Runs ahead of inputs: browsers compile a kernel's fast code only once it has run. */
import { specBytes } from "../plan.js";
import { planAt } from "./plan.js";

/** @import { OpenPlan, Tensor } from "../../types/engine.js" */
/** @import { Dims } from "./size.js" */
/** @typedef {{stepwise: (inputs: Tensor[]) => Generator<void>}} Stepped */
/**
 * Kernels that run before inputs need them: in idle moments behind a run, which writes over what a step left, so that
 * the run ahead begins again; and never again.
 * @typedef {{behindRun: () => void, stop: () => void}} Ahead
 */

/** More remainders than this are not tried. */
const MOST_TURNS = 64;
/** Of idle time, what a step has to find. */
const LEAST_IDLE_MS = 2;

/**
 * Inputs of zeros at these sizes and just below, until every kernel that a remainder chooses has come; false where a
 * size brings none.
 * @param {OpenPlan} open
 * @param {Partial<Dims>} given sizes to begin at; those of the example where one is missing
 * @returns {Generator<Tensor[] | false>}
 */
export function* warmInputs(open, given) {
  const first = /** @type {Dims} */ ({ ...open.example, ...given });
  const wanted = new Set(Object.values(open.kernels).flatMap(({ variants }) => variants.map(({ workload }) => workload)));
  for (const dims of around(open, first)) {
    const plan = planAt(open, dims);
    const before = wanted.size;
    for (const { workload } of plan.steps) wanted.delete(workload);
    yield wanted.size < before && plan.inputs.map(({ spec }) => ({ ...spec, data: new Uint8Array(specBytes(spec)) }));
    if (!wanted.size) return;
  }
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
 * for one step at most.
 * @param {Stepped} engine that holds the model
 * @param {OpenPlan} open
 * @returns {Ahead}
 */
export function aheadOf(engine, open) {
  const lowest = Object.fromEntries(open.dims.map(({ name, low }) => [name, low]));
  let stale = false;
  const steps = (function* () {
    for (const inputs of warmInputs(open, lowest))
      do {
        stale = false;
        for (const _ of inputs ? engine.stepwise(inputs) : [0]) {
          yield;
          if (stale) break;
        }
      } while (stale);
  })();
  let asked = false;
  const ask = () => {
    if (asked) return;
    asked = true;
    // where a browser does not tell when it is idle, and in workers, between two other tasks
    (globalThis.requestIdleCallback ?? setTimeout)((/** @type {IdleDeadline | undefined} */ idle) => {
      try {
        do if (steps.next().done) return;
        while ((idle?.timeRemaining() ?? 0) > LEAST_IDLE_MS);
        asked = false;
        ask();
      } catch {
        // nobody waits for it; a run that needs the kernel tells what is wrong
      }
    });
  };
  return { behindRun: () => ((stale = true), ask()), stop: () => steps.return() };
}
