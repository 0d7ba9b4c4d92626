/** Places in the arena: tensors that are alive at the same step never overlap (nnjit_studio/model/storage.py). */
import { aligned } from "../plan.js";

/** @import { PlanBuffer, PlanPort, PlanStep } from "../../types/engine.js" */
/** @typedef {Pick<PlanPort, "buffer" | "found">} Output */
/**
 * Places the tensors of any size: the largest first, each into the lowest gap that fits. Which tensors are
 * alive at the same step is found once, because a new size waits for its places.
 * @param {{buffers: {region: string}[], steps: PlanStep[], inputs: {buffer: number}[], outputs: Output[]}} plan
 * @returns {(buffers: PlanBuffer[]) => number} gives buffers their offsets; the bytes of the arena
 */
export function placer({ buffers, steps, inputs, outputs }) {
  const order = buffers.flatMap(({ region }, i) => (region === "arena" ? [i] : []));
  const spans = lifetimes(steps, inputs, outputs);
  const spanOf = (/** @type {number} */ i) => spans.get(i) ?? [0, Infinity];
  /** @type {number[][]} the others that are needed while a buffer is */
  const near = [];
  for (const a of order) near[a] = order.filter((b) => a !== b && spanOf(b)[0] <= spanOf(a)[1] && spanOf(a)[0] <= spanOf(b)[1]);
  const end = new Float64Array(buffers.length);
  return (made) => {
    order.sort((a, b) => made[b].nbytes - made[a].nbytes || a - b); // it stands as the last size left it: nearly sorted
    end.fill(0); // nothing is in the way before it has its place
    for (const i of order) {
      const nbytes = aligned(made[i].nbytes);
      let at = 0;
      for (let n = 0; n < near[i].length; n++) {
        const other = near[i][n];
        if (made[other].offset < at + nbytes && at < end[other]) [at, n] = [end[other], -1];
      }
      made[i].offset = at;
      end[i] = at + nbytes;
    }
    return Math.max(...end);
  };
}

/**
 * The first and the last step at which each buffer is needed.
 * @param {PlanStep[]} steps
 * @param {{buffer: number}[]} inputs
 * @param {Output[]} outputs
 */
function lifetimes(steps, inputs, outputs) {
  const calls = steps.filter(({ op }) => op !== "return");
  /** @type {Map<number, [number, number]>} */
  const spans = new Map();
  calls.forEach(({ args }, position) => {
    for (const buffer of args) spans.set(buffer, [spans.get(buffer)?.[0] ?? position, position]);
  });
  for (const { buffer } of inputs) spans.set(buffer, [0, calls.length]);
  for (const { buffer, found } of outputs)
    for (const b of [buffer, found?.count ?? buffer]) spans.set(b, [spans.get(b)?.[0] ?? 0, calls.length]);
  return spans;
}
