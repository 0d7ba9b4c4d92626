/** Compares a kernel's output with the float64 reference of its fixture. */
import { EngineError } from "./errors.js";

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
    default:
      throw new EngineError(`Outputs of dtype ${dtype} cannot be compared yet.`);
  }
}

/**
 * Largest `|got - expected| / bound`. A NaN where the reference has none, or
 * the other way round, is infinite.
 *
 * @param {string} dtype of both
 * @param {Uint8Array} gotBytes
 * @param {Uint8Array} expectedBytes
 * @param {Float32Array} bound one for each element
 * @returns {number} at most 1 is right
 */
export function errorRatio(dtype, gotBytes, expectedBytes, bound) {
  const got = typed(dtype, gotBytes);
  const expected = typed(dtype, expectedBytes);
  if (got.length !== expected.length || got.length !== bound.length)
    throw new EngineError(`The fixture has ${expected.length} values and ${bound.length} bounds for ${got.length} outputs.`);
  let worst = 0;
  for (let i = 0; i < got.length; i++) {
    const g = got[i];
    const e = expected[i];
    if (g === e || (g !== g && e !== e)) continue;
    // bigint and number never mix: both arrays have the same dtype
    const difference = Math.abs(Number(/** @type {number} */ (g) - /** @type {number} */ (e)));
    const ratio = difference / bound[i];
    if (!(ratio <= worst)) worst = ratio === ratio ? ratio : Infinity;
  }
  return worst;
}
