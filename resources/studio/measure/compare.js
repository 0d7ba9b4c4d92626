/** Compares a kernel's output with the float64 reference of its fixture. */
import { EngineError } from "../../engine/errors.js";

/**
 * @param {string} dtype
 * @param {Uint8Array} bytes
 * @returns {ArrayLike<number | bigint>}
 */
function typed(dtype, bytes) {
  const { buffer, byteOffset, byteLength } = bytes;
  switch (dtype) {
    case "f32":
      return new Float32Array(buffer, byteOffset, byteLength / 4);
    case "i32":
      return new Int32Array(buffer, byteOffset, byteLength / 4);
    case "i64":
      return new BigInt64Array(buffer, byteOffset, byteLength / 8);
    case "i8":
      return new Int8Array(buffer, byteOffset, byteLength);
    case "u8":
    case "bool":
      return bytes;
    case "f16":
      return Float32Array.from(new Uint16Array(buffer, byteOffset, byteLength / 2), fromHalf);
    default:
      throw new EngineError(`Outputs of the unknown dtype ${dtype} cannot be compared.`);
  }
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
