/** A plan bound to two sets of kernels in one memory. */
import { wantedWidths } from "../plan.js";
import { bindCalls } from "../steps.js";

/** @import { Call, Loaded, NewKernel } from "../../types/engine.js" */
/** @import { Engine } from "../engine.js" */
/**
 * Weights lie as the kernels of now want them; `use(true)` lays them out for the others and says
 * whether any moved. `use(false)` has to come before any other call of the engine, as `drop()` has to
 * at the end.
 * @typedef {{loaded: Loaded, now: Call[], others: Call[], use: (others: boolean) => boolean, drop: () => void}} Rivals
 */

/**
 * @param {Engine} engine with a model and all its kernels
 * @param {NewKernel[]} kernels in place of theirs
 * @param {string} [name] of the plan
 * @returns {Promise<Rivals>}
 */
export async function rivalsOf(engine, kernels, name) {
  const { loaded, calls, kernels: own, weights, team } = engine.inside(name);
  const linked = await engine.link(kernels);
  const drop = () => team?.drop([...linked.values()].map(({ id }) => id));
  try {
    const next = new Map([...own, ...linked]);
    const widths = [own, next].map((each) => wantedWidths(Object.values(engine.plans), each, weights));
    const use = (/** @type {boolean} */ others) => {
      const changed = [...widths[Number(others)]].filter(([weight, width]) => weight.width !== width);
      for (const [weight, width] of changed) engine.repack(weight, width);
      return changed.length > 0;
    };
    return { loaded, now: calls, others: /** @type {Call[]} */ (bindCalls(loaded, next, team)), use, drop };
  } catch (e) {
    drop();
    throw e;
  }
}
