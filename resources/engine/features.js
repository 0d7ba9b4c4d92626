/** What this browser can do, found by asking it to validate tiny modules. */

export const MAX_THREADS = 64;

/** Whether this page may share memory between threads. */
export const canShare = () => globalThis.crossOriginIsolated === true && typeof SharedArrayBuffer === "function";

/** Tiers from best to plainest. */
export const TIERS = /** @type {const} */ (["relaxed-simd", "simd128"]);
/** @typedef {typeof TIERS[number]} Tier */

/**
 * A module with one function of no parameters that returns a v128.
 * @param {number[]} body instructions without the final `end`
 */
function vectorModule(body) {
  const code = [0, ...body, 0x0b];
  return Uint8Array.of(
    ...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
    ...[1, 5, 1, 0x60, 0, 1, 0x7b], // type: () -> v128
    ...[3, 2, 1, 0], // one function of that type
    ...[10, code.length + 2, 1, code.length, ...code],
  );
}

const ZERO = [0x41, 0, 0xfd, 0x11]; // i32.const 0; i32x4.splat
const PROBES = {
  simd128: vectorModule([...ZERO, ...ZERO, 0xfd, 0xe4, 0x01]), // f32x4.add
  "relaxed-simd": vectorModule([...ZERO, ...ZERO, ...ZERO, 0xfd, 0x85, 0x02]), // f32x4.relaxed_madd
};

/** @param {Tier} tier @param {(bytes: BufferSource) => boolean} [validate] */
export function hasTier(tier, validate = WebAssembly.validate) {
  return validate(PROBES[tier]);
}

/**
 * The best tier, or null in a browser without Wasm SIMD.
 * @param {(bytes: BufferSource) => boolean} [validate]
 * @returns {Tier | null}
 */
export function bestTier(validate = WebAssembly.validate) {
  return TIERS.find((tier) => hasTier(tier, validate)) ?? null;
}
