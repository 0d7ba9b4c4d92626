/** SHA-256 (FIPS 180-4) for pages that are no secure context: browsers hash nothing there. */

const BLOCK = 64;
/** The first 32 bits of the fractional part. @param {number} x */
const fraction = (x) => ((x - Math.floor(x)) * 2 ** 32) | 0;
const PRIMES = [...Array(312).keys()].filter((n) => n > 1 && [2, 3, 5, 7, 11, 13, 17].every((p) => n === p || n % p));
const START = Int32Array.from(PRIMES.slice(0, 8), (p) => fraction(Math.sqrt(p)));
const ROUNDS = Int32Array.from(PRIMES, (p) => fraction(Math.cbrt(p)));

/** @param {Uint8Array} bytes @returns {Uint8Array} the 32 bytes of the digest */
export function sha256(bytes) {
  const state = START.slice();
  const words = new Int32Array(BLOCK);
  const whole = bytes.length - (bytes.length % BLOCK);
  const view = new DataView(bytes.buffer, bytes.byteOffset, whole);
  for (let at = 0; at < whole; at += BLOCK) mix(state, words, view, at);
  const left = bytes.length - whole;
  const end = new DataView(new ArrayBuffer(left + 9 > BLOCK ? 2 * BLOCK : BLOCK));
  new Uint8Array(end.buffer).set(bytes.subarray(whole));
  end.setUint8(left, 0x80);
  end.setBigUint64(end.byteLength - 8, BigInt(bytes.length) * 8n);
  for (let at = 0; at < end.byteLength; at += BLOCK) mix(state, words, end, at);
  const digest = new DataView(new ArrayBuffer(4 * state.length));
  state.forEach((word, i) => digest.setInt32(4 * i, word));
  return new Uint8Array(digest.buffer);
}

/** @param {number} x @param {number} n */
const turn = (x, n) => (x >>> n) | (x << (32 - n));

/** One block. @param {Int32Array} state @param {Int32Array} words @param {DataView} view @param {number} at */
function mix(state, words, view, at) {
  for (let i = 0; i < 16; i++) words[i] = view.getInt32(at + 4 * i);
  for (let i = 16; i < BLOCK; i++) {
    const x = words[i - 15];
    const y = words[i - 2];
    words[i] = words[i - 16] + words[i - 7] + (turn(x, 7) ^ turn(x, 18) ^ (x >>> 3)) + (turn(y, 17) ^ turn(y, 19) ^ (y >>> 10));
  }
  // no array is made for a block: that would take half of the time
  let a = state[0], b = state[1], c = state[2], d = state[3], e = state[4], f = state[5], g = state[6], h = state[7];
  for (let i = 0; i < BLOCK; i++) {
    const one = (h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + ROUNDS[i] + words[i]) | 0;
    const two = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    h = g;
    g = f;
    f = e;
    e = (d + one) | 0;
    d = c;
    c = b;
    b = a;
    a = (one + two) | 0;
  }
  state[0] += a;
  state[1] += b;
  state[2] += c;
  state[3] += d;
  state[4] += e;
  state[5] += f;
  state[6] += g;
  state[7] += h;
}
