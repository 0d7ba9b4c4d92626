/** Our candidates of one shape: compiled side by side, checked, timed; the best. */
import { median } from "../page.js";
import { ours } from "./contenders.js";
import { callsFor, recorded } from "./timing.js";

/** @import { Contender, OurProduct } from "./contenders.js" */
/** @import { GpuPolicy } from "./timing.js" */
/** @import { Warmer } from "./warm.js" */
/** @typedef {{settings: string, pipeline_ms: number, gpu_ms: number[], max_rel_err: number | null, error: string}} Tried `gpu_ms` of one product of many in a pass */

const SIDE_BY_SIDE = 8;
const FINALISTS = 6;
const FINAL_ROUNDS = 5;
/** Of float32 sums of some thousand products in any order; a wrong kernel is far beyond. */
const MOST_ERROR = 1e-4;

/**
 * @param {Float32Array} got
 * @param {Float32Array} reference
 * @returns {number} largest error over the largest value; infinite where a value is none
 */
export function relativeError(got, reference) {
  if (got.length !== reference.length) return Infinity;
  let [error, scale] = [0, 0];
  for (let i = 0; i < got.length; i++) {
    const e = Math.abs(got[i] - reference[i]);
    if (!(e <= error)) error = e;
    if (error !== error) return Infinity;
    const s = Math.abs(reference[i]);
    if (s > scale) scale = s;
  }
  return error / (scale || 1);
}

/**
 * @param {OurProduct} product
 * @param {any} device
 * @param {Warmer} warmer
 * @param {GpuPolicy} policy
 * @param {(tried: number) => Promise<unknown>} note
 * @returns {Promise<{best: Contender, settings: string, tried: Tried[], seconds: number, best_at: number}>}
 */
export async function sweep(product, device, warmer, policy, note) {
  const { shape } = product;
  const start = performance.now();
  /** @type {Tried[]} */
  const tried = [];
  /** @type {{contender: Contender, row: Tried, calls: number}[]} */
  const right = [];
  for (let first = 0; first < shape.candidates.length; first += SIDE_BY_SIDE) {
    const group = shape.candidates.slice(first, first + SIDE_BY_SIDE);
    const compiled = await Promise.allSettled(group.map((c) => product.commands(c.document)));
    for (const [i, made] of compiled.entries()) {
      /** @type {Tried} */
      const row = { settings: group[i].settings, pipeline_ms: 0, gpu_ms: [], max_rel_err: null, error: "" };
      tried.push(row);
      try {
        if (made.status === "rejected") throw made.reason;
        row.pipeline_ms = made.value.ms;
        const contender = ours(product, made.value, device);
        product.spoil();
        const error = relativeError(await contender.output(), shape.reference);
        row.max_rel_err = Number.isFinite(error) ? error : null;
        if (!(error <= MOST_ERROR)) throw new Error(`wrong by ${error}`);
        const calls = await callsFor(contender, "pass", shape.depth, policy);
        await warmer.ready(policy.warm_ms / 4);
        for (let j = 0; j < 2; j++) row.gpu_ms.push((await recorded(contender, "pass", calls)).gpu_ms / calls);
        right.push({ contender, row, calls });
      } catch (e) {
        row.error = `${/** @type {Error} */ (e).message ?? e}`.slice(0, 500);
      }
    }
    await note(tried.length);
  }
  if (!right.length) throw new Error(`No candidate of ${shape.spec} was right: ${tried[0]?.error}`);
  const seconds = (performance.now() - start) / 1e3;
  right.sort((a, b) => median(a.row.gpu_ms) - median(b.row.gpu_ms));
  const finalists = right.slice(0, FINALISTS);
  for (const { row } of finalists) row.gpu_ms = [];
  for (let round = 0; round < FINAL_ROUNDS; round++)
    for (const { contender, row, calls } of finalists) {
      await warmer.ready(policy.warm_ms / 4);
      row.gpu_ms.push((await recorded(contender, "pass", calls)).gpu_ms / calls);
    }
  finalists.sort((a, b) => median(a.row.gpu_ms) - median(b.row.gpu_ms));
  const { contender, row } = finalists[0];
  return { best: contender, settings: row.settings, tried, seconds, best_at: tried.indexOf(row) + 1 };
}
