/** Whole functions that do what a known kernel does: told apart, and donors for them proven and timed. */
import { Donors } from "../../live/donors.js";

/** @import { Block } from "../../live/recorder.js" */
/** @typedef {{originals: string, functions: string[], reference: string, donors: string[], cases: number, blocks: Block[]}} KernelJob */

const WARM_UP = 3;

/**
 * @param {KernelJob} job
 * @param {{rounds: number, call_ms: number}} settings
 * @param {(path: string) => Promise<any>} fetchBytes
 */
export async function judge({ originals, functions, reference, donors, cases, blocks }, { rounds, call_ms }, fetchBytes) {
  const judged = new Donors(await fetchBytes(originals), functions, await fetchBytes(reference), cases);
  const kinds = judged.kinds;
  /** @type {Record<string, import("../../live/prove.js").Proof>} */
  const proofs = {};
  const wanted = kinds.some(Boolean) ? donors : [];
  for (const name of wanted) {
    const bytes = await fetchBytes(name);
    if (WebAssembly.validate(bytes)) proofs[name] = await judged.add(name, new Uint8Array(bytes));
  }
  const names = wanted.length ? ["original", ...Object.keys(proofs)] : [];
  /** @type {Record<string, Record<string, number[]>>} */
  const samples = Object.fromEntries(names.map((name) => [name, Object.fromEntries(kinds.map((kind) => [kind, []]))]));
  for (let round = -WARM_UP; round < rounds; round++) {
    await new Promise((resolve) => setTimeout(resolve));
    for (let turn = 0; turn < names.length; turn++) {
      const name = names[(round + WARM_UP + turn) % names.length];
      for (const kind of new Set(kinds.filter(Boolean))) {
        const mine = blocks.filter(({ kernel }) => kernel === kind);
        const ms = judged.sample(name, mine, call_ms);
        if (round >= 0) samples[name][kind].push(ms);
      }
    }
  }
  return { kinds, proofs, samples_ms: samples };
}
