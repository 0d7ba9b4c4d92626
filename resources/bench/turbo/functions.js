/** Whole functions, before and after, on random memory and arguments. */
import { randomBy } from "../../live/images.js";
import { identical } from "./loops.js";
import { address, fill, whole } from "./random.js";

/** @import { Random } from "./random.js" */
/** @typedef {{index: number, before: string, after: string, params: number[], imports: string[]}} PairJob */

/** Loop iterations before a function is stopped; its loops count them down at address 0. */
const FUEL = 20000;
/** At arguments that the function does not stop on; after these it may. */
const ATTEMPTS = 30;
const SPAN = 1 << 17;
const I32 = 0x7f;
const I64 = 0x7e;

/** @param {Random} random @param {number} type */
function argument(random, type) {
  const given = address(random, random() < 0.5 ? 1 : 4, SPAN);
  if (type === I32) return given;
  if (type === I64) return BigInt(given);
  return random() < 0.5 ? 1 : 2 * random() - 1;
}

/** @param {any} instance @param {number} index @param {any[]} given */
function outcome({ exports }, index, given) {
  for (const [name, value] of Object.entries(exports)) if (/^g\d+$/.test(name)) resetGlobal(value);
  try {
    return String(exports[`f${index}`](...given));
  } catch (e) {
    if (e instanceof WebAssembly.RuntimeError || e instanceof Called) return "stopped";
    throw e;
  }
}

class Called extends Error {}

/** @param {any} value a global; those that are constant stay */
function resetGlobal(value) {
  try {
    value.value = typeof value.value === "bigint" ? 0n : 0;
  } catch (e) {
    if (!(e instanceof TypeError)) throw e;
  }
}

/**
 * Both stop, or both end with the same result; either way all of memory is the same.
 * @param {PairJob} job
 * @param {{seed: number, cases: number}} settings
 * @param {(path: string) => Promise<BufferSource>} fetchBytes
 */
export async function compare({ index, before, after, params, imports }, { seed, cases }, fetchBytes) {
  const called = () => {
    throw new Called();
  };
  const env = Object.fromEntries(imports.map((name) => [name, called]));
  const [old, changed] = await Promise.all(
    [before, after].map(async (file) => (await WebAssembly.instantiate(await fetchBytes(file), { env })).instance),
  );
  const random = randomBy(seed + index);
  const [expected, words] = [old, changed].map(({ exports }) => new Uint32Array(/** @type {any} */ (exports.memory).buffer));
  const image = new Uint32Array(words.length);
  let ended = 0;
  let equal = 0;
  for (let n = 0; n < cases; n++) {
    fill(random, image.buffer, false);
    image[0] = whole(random, 1, FUEL);
    /** @type {any[]} */
    let given = [];
    let first = "stopped";
    for (let attempt = 0; attempt < ATTEMPTS && first === "stopped"; attempt++) {
      given = params.map((type) => argument(random, type));
      expected.set(image);
      first = outcome(old, index, given);
    }
    words.set(image);
    const second = outcome(changed, index, given);
    ended += Number(first !== "stopped");
    equal += Number(first === second && identical(expected, words));
  }
  return { index, cases, ended, equal };
}
