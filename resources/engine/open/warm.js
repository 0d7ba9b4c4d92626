/** Runs ahead of the first input: browsers compile a kernel's fast code only once it has run. */
import { specBytes } from "../plan.js";
import { planAt } from "./plan.js";
import { checkDims } from "./size.js";

/** @import { OpenPlan, Tensor } from "../../types/engine.js" */
/** @import { Dims } from "./size.js" */

/** More remainders than this are not tried. */
const MOST_TURNS = 64;

/**
 * Inputs of zeros at these sizes and just below, until every kernel that a remainder chooses has come.
 * @param {OpenPlan} open
 * @param {Partial<Dims>} given sizes to begin at; those of the example where one is missing
 * @returns {Generator<Tensor[]>}
 */
export function* warmInputs(open, given) {
  const first = /** @type {Dims} */ ({ ...open.example, ...given });
  checkDims(open, first);
  const wanted = new Set(Object.values(open.kernels).flatMap(({ variants }) => variants.map(({ workload }) => workload)));
  for (const dims of around(open, first)) {
    const plan = planAt(open, dims);
    const before = wanted.size;
    for (const { workload } of plan.steps) wanted.delete(workload);
    if (wanted.size < before)
      yield plan.inputs.map(({ spec }) => ({ ...spec, data: new Uint8Array(specBytes(spec)) }));
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
