/** Random memory and arguments for functions of which only the types are known. */

/** Below lies what the loop module keeps for itself (`nnjit_studio/foreign_wasm/turbo/gate/loop_module.py`). */
export const DATA = 65536;
const SPECIAL = [NaN, Infinity, -Infinity, 1e-40, -0, 3.4e38];

/** @typedef {() => number} Random */

/** A whole number. @param {Random} random @param {number} low @param {number} high inclusive */
export const whole = (random, low, high) => low + Math.floor(random() * (high - low + 1));

/**
 * Floats in [-1, 1), now and then special ones, or bytes of every kind.
 * @param {Random} random
 * @param {ArrayBuffer} buffer
 * @param {boolean} plain floats only, as for timing
 */
export function fill(random, buffer, plain) {
  const floats = new Float32Array(buffer);
  const bits = new Uint32Array(buffer);
  const bytes = !plain && random() < 0.3;
  const pool = new Float32Array(4096).map(() => 2 * random() - 1);
  // A pool is enough, and far cheaper: its length shares no factor with the strides that follow.
  for (let i = 0; i < floats.length; i++) floats[i] = pool[(i * 2741) & 4095];
  if (bytes) for (let i = 0; i < bits.length; i++) bits[i] = Math.imul(bits[i] + i, 0x9e3779b1);
  if (!plain && random() < 0.2) for (let n = 0; n < 64; n++) floats[whole(random, 0, floats.length - 1)] = SPECIAL[n % SPECIAL.length];
}

/**
 * A pointer, a distance or a count.
 * @param {Random} random
 * @param {number} step all are multiples of it
 * @param {number} span bytes into which pointers point
 */
export function address(random, step, span) {
  const kind = random();
  const most = kind < 0.6 ? span : kind < 0.9 ? 256 : 40;
  return (kind < 0.6 ? DATA : 0) + step * whole(random, 0, Math.floor(most / step));
}
