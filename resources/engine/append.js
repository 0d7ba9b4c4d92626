/** The instruction `append`: new rows of a cache go into their slots, in place. */
import { EngineError } from "./errors.js";

/** @import { Append, Plan, PlanStep } from "../types/engine.js" */

/** Elements are copied as they are, so their size is all that counts. */
const ARRAYS = /** @type {Record<number, any>} */ ({ 1: Uint8Array, 2: Uint16Array, 4: Uint32Array });
const SLOT_BYTES = 8;

/** @param {PlanStep} step @param {Plan} plan */
export function checkAppend({ append, args, node }, plan) {
  const sizes = append && [append.heads, append.rows, append.width, append.capacity];
  if (!append || !sizes?.every((n) => Number.isSafeInteger(n) && n > 0) || !(append.nbytes in ARRAYS) || ![2, 3].includes(args.length))
    throw new EngineError(`The step ${node} of the plan appends in a way that this engine does not know.`);
  const { heads, rows, width, capacity, nbytes } = append;
  const [from, to, at] = args.map((a) => plan.buffers[a]);
  const fits = rows <= capacity && heads * rows * width * nbytes <= from.nbytes && heads * capacity * width * nbytes <= to.nbytes;
  if (!fits || to.region === "weight" || (at && at.nbytes < SLOT_BYTES))
    throw new EngineError(`The step ${node} of the plan appends outside its buffers.`);
}

/** The last ones, made once: an append runs for each layer and token. @type {any} */
let kept = { buffer: null };

/** @param {WebAssembly.Memory} memory */
function viewsOf(memory) {
  const { buffer } = memory;
  if (kept.buffer !== buffer) kept = { buffer, words: new Int32Array(buffer) };
  return kept;
}

/**
 * @param {WebAssembly.Memory} memory
 * @param {Append} append
 * @param {number} from address of the rows
 * @param {number} to address of the cache
 * @param {number | undefined} at address of the first slot, i64; slot 0 without it
 */
export function appendRows(memory, { heads, rows, width, capacity, nbytes, columns }, from, to, at) {
  const views = viewsOf(memory);
  const slot = at === undefined ? 0 : views.words[at / 4] + 2 ** 32 * views.words[at / 4 + 1];
  if (!(slot >= 0 && slot + rows <= capacity))
    throw new EngineError(`The cache has ${capacity} slots; ${rows} rows at slot ${slot} do not fit.`);
  const data = views[nbytes] ?? (views[nbytes] = new ARRAYS[nbytes](memory.buffer));
  const source = from / nbytes;
  const target = to / nbytes;
  if (!columns) {
    for (let head = 0; head < heads; head++) {
      const begin = source + head * rows * width;
      data.copyWithin(target + (head * capacity + slot) * width, begin, begin + rows * width);
    }
    return;
  }
  for (let head = 0; head < heads; head++)
    for (let x = 0; x < width; x++) {
      const line = target + (head * width + x) * capacity + slot;
      let element = source + head * rows * width + x;
      for (let row = 0; row < rows; row++, element += width) data[line + row] = data[element];
    }
}
