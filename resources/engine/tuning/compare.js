/** Compares what a kernel wrote with the float64 reference of its fixture, and what it must not write with what it was. */
import { EngineError } from "../errors.js";
import { ARRAYS } from "../plan.js";

/** @param {string} dtype @param {Uint8Array} bytes @returns {ArrayLike<number | bigint>} */
function typed(dtype, bytes) {
  const Typed = ARRAYS[dtype];
  if (!Typed) throw new EngineError(`Outputs of the unknown dtype ${dtype} cannot be compared.`);
  const values = new Typed(bytes.buffer, bytes.byteOffset, bytes.byteLength / Typed.BYTES_PER_ELEMENT);
  return dtype === "f16" ? Float32Array.from(values, fromHalf) : values;
}

/**
 * IEEE 754 binary16 to a number.
 * @param {number} bits
 */
export function fromHalf(bits) {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return exponent ? sign * 2 ** (exponent - 25) * (1024 + fraction) : sign * 2 ** -24 * fraction;
}

/**
 * Largest `|got - expected| / bound`. A NaN where the reference has none, or
 * the other way round, is infinite.
 *
 * @param {string} dtype of the output; the reference of f16 is f32
 * @param {Uint8Array} gotBytes
 * @param {Uint8Array} expectedBytes
 * @param {Float32Array} bound one for each element
 * @returns {number} at most 1 is right
 */
export function errorRatio(dtype, gotBytes, expectedBytes, bound) {
  const got = typed(dtype, gotBytes);
  const expected = typed(dtype === "f16" ? "f32" : dtype, expectedBytes);
  if (got.length !== expected.length || got.length !== bound.length)
    throw new EngineError(`The fixture has ${expected.length} values and ${bound.length} bounds for ${got.length} outputs.`);
  let worst = 0;
  for (let i = 0; i < got.length; i++) {
    const g = got[i];
    const e = expected[i];
    if (g === e || (g !== g && e !== e)) continue;
    // bigint and number never mix: both arrays have one kind of number
    const difference = Math.abs(Number(/** @type {number} */ (g) - /** @type {number} */ (e)));
    const ratio = difference / bound[i];
    if (!(ratio <= worst)) worst = ratio === ratio ? ratio : Infinity;
  }
  return worst;
}

/**
 * The largest error ratio of all outputs.
 * @param {{arg: number, dtype: string, expected: Uint8Array, bound: Float32Array}[]} outputs
 * @param {(arg: number) => Uint8Array} written
 */
export const worstRatio = (outputs, written) =>
  Math.max(0, ...outputs.map(({ arg, dtype, expected, bound }) => errorRatio(dtype, written(arg), expected, bound)));

/** What red zones are filled with. */
export const GUARD = 0xa5;
/** What outputs are filled with: NaN as a float, and no output anyone expects. */
export const POISON = 0xff;

/** @param {Uint8Array} bytes @param {number} from @param {number} to */
export function isGuard(bytes, from, to) {
  for (let i = from; i < to; i++) if (bytes[i] !== GUARD) return false;
  return true;
}

/** @param {Uint8Array} a @param {Uint8Array} b */
export function isEqual(a, b) {
  if (a.length !== b.length) return false;
  const words = a.byteOffset % 4 || b.byteOffset % 4 ? 0 : a.length >> 2;
  const aw = new Uint32Array(words ? a.buffer : new ArrayBuffer(0), words ? a.byteOffset : 0, words);
  const bw = new Uint32Array(words ? b.buffer : new ArrayBuffer(0), words ? b.byteOffset : 0, words);
  for (let i = 0; i < words; i++) if (aw[i] !== bw[i]) return false;
  for (let i = words * 4; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}
