/** The plan of a rewritten module (nnjit_studio/foreign_wasm/offload/plan.py). */

/** What an element is, as nested lists (formula.py). @typedef {[name: string, ...rest: any[]]} Formula */
/** Dense for the kernel; in memory at steps of bytes. @typedef {{result: boolean, dims: [step: number, extent: number][], formula: Formula}} Output */
/** Two places that must not overlap, or that may be one place where `same`. @typedef {{output: number, input?: number, other?: number, same: boolean}} Pair */
/** The nest as a module of its own; `regions` are offset and floats of what it reads and writes. @typedef {{wasm: string, regions: [number, number][], places: {inputs: number[], outputs: number[], scalars: number[]}}} Alone */
/**
 * @typedef {object} Nest
 * @property {number} function
 * @property {string} name of the function
 * @property {number} loop
 * @property {string} pattern
 * @property {string} fingerprint of the canonical form
 * @property {number} flops
 * @property {{before: number, after: number}} slots
 * @property {number[]} inputs bytes
 * @property {number} scalars how many
 * @property {Output[]} outputs
 * @property {number[]} workspaces bytes
 * @property {Pair[]} apart
 * @property {number} terms of the longest sum
 * @property {number} rounding relative error of what the kernel multiplies, 0 of float32
 * @property {object} kernel its document
 * @property {Alone | null} alone
 */
/** `hooks` is the module that stands in the table, base64. @typedef {{version: number, hooks: string, nests: Nest[]}} Plan */

const VERSION = 3;
/** The export of a rewritten module that its nests ask. */
export const TABLE = "nnjit_offload";

/** @param {any} found @returns {Plan} */
export function parsePlan(found) {
  if (found?.version !== VERSION || !Array.isArray(found.nests)) throw new Error(`This is no plan of version ${VERSION}: write the module again with nnjit offload.`);
  return found;
}
