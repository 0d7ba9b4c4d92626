/** Files that wait before they are kept: the first answer of a visit goes before the next visit. */

/** @import { Kept } from "./kept.js" */

/** What waits at most; beyond it the oldest is kept before anything more is taken. */
const MOST_BYTES = 2 ** 27;

/** Of all stores of this thread, the oldest first. @type {Map<string, {bytes: Uint8Array<ArrayBuffer>, put: Kept["put"]}>} */
const waiting = new Map();
/** @type {Promise<unknown>} */ let written = Promise.resolve();

/** Keeps the oldest: one at a time, for nobody waits. */
function keepOne() {
  written = written.then(async () => {
    const [oldest] = waiting;
    if (!oldest) return;
    const [key, file] = oldest;
    await file.put(key, file.bytes).catch(() => {});
    if (waiting.get(key) === file) waiting.delete(key);
  });
  return written;
}

/** Keeps all that waits, now. */
export async function keepAll() {
  while (waiting.size) await keepOne();
}

/**
 * A store that keeps later. What waits is found, listed and forgotten as if it were kept.
 * @param {Kept} kept
 * @param {number} [keep_ms] how long a file waits
 * @returns {Kept}
 */
export const later = (kept, keep_ms = 0) => ({
  get: async (key) => waiting.get(key)?.bytes.slice().buffer ?? kept.get(key),
  keys: async () => [...new Set([...(await kept.keys()), ...waiting.keys()])],
  put: async (key, bytes) => {
    waiting.set(key, { bytes, put: kept.put });
    setTimeout(keepOne, keep_ms);
    const nbytes = [...waiting.values()].reduce((n, file) => n + file.bytes.length, 0);
    if (nbytes > MOST_BYTES) await keepOne();
  },
  delete: async (key) => {
    waiting.delete(key);
    await kept.delete(key);
  },
});
