/** Places in the arena: tensors that are alive at the same step never overlap (nnjit_studio/model/storage.py). */
import { aligned } from "../plan.js";

/** @import { PlanBuffer, PlanPort, PlanStep } from "../../types/engine.js" */

/**
 * The buffers with their offsets, and the bytes of the arena: the largest first, each into the lowest gap that fits.
 * @param {{buffers: PlanBuffer[], steps: PlanStep[], inputs: {buffer: number}[], outputs: PlanPort[]}} plan
 */
export function placed({ buffers, steps, inputs, outputs }) {
  const spans = lifetimes(steps, inputs, outputs);
  const made = buffers.map((b) => ({ ...b }));
  const order = made.map((_, i) => i).filter((i) => made[i].region === "arena");
  order.sort((a, b) => made[b].nbytes - made[a].nbytes || a - b);
  /** @type {{begin: number, end: number, first: number, last: number}[]} by begin */
  const taken = [];
  let arena_bytes = 0;
  for (const i of order) {
    const [first, last] = spans.get(i) ?? [0, steps.length];
    const nbytes = aligned(made[i].nbytes);
    let at = 0;
    for (const other of taken) {
      if (other.first > last || first > other.last) continue;
      if (other.begin - at >= nbytes) break;
      at = Math.max(at, other.end);
    }
    made[i].offset = at;
    const next = taken.findIndex(({ begin }) => begin > at);
    taken.splice(next < 0 ? taken.length : next, 0, { begin: at, end: at + nbytes, first, last });
    arena_bytes = Math.max(arena_bytes, at + nbytes);
  }
  return { buffers: made, arena_bytes };
}

/**
 * The first and the last step at which each buffer is needed.
 * @param {PlanStep[]} steps
 * @param {{buffer: number}[]} inputs
 * @param {PlanPort[]} outputs
 */
function lifetimes(steps, inputs, outputs) {
  const calls = steps.filter(({ op }) => op !== "return");
  /** @type {Map<number, [number, number]>} */
  const spans = new Map();
  calls.forEach(({ args }, position) => {
    for (const buffer of args) spans.set(buffer, [spans.get(buffer)?.[0] ?? position, position]);
  });
  for (const { buffer } of inputs) spans.set(buffer, [0, calls.length]);
  const read = outputs.flatMap(({ buffer, found }) => (found ? [buffer, found.count] : [buffer]));
  for (const buffer of read) spans.set(buffer, [spans.get(buffer)?.[0] ?? 0, calls.length]);
  return spans;
}
