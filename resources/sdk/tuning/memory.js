/** What tuning found on this device: in IndexedDB, by bundle, browser and tier. */

/** @import { Served } from "./queue.js" */

/**
 * `won`: settings by workload that stay; `trial`: the kernel that did better in place and has yet to
 * prove itself in use; `tried`: outcomes by workload and settings; `gain` of the model, with its interval;
 * `asked`: where the questions to a compile service stand, and how many lots in a row held no winner;
 * `served`: its kernels that won or are on trial.
 * @typedef {[number, number, number]} Gain
 * @typedef {{after: number, idle: number}} Asked
 * @typedef {{won: Record<string, string>, trial: {workload: string, settings: string, gain: Gain} | null, tried: Record<string, Record<string, string>>, gain: Gain, visits: number, asked: Record<string, Asked>, served: Served[]}} Known
 */
/** @typedef {{load: (key: string) => Promise<unknown>, save: (key: string, known: Known) => Promise<void>}} Store */

const DATABASE = "nnjit-tuning";
const STORE = "devices";

/** @returns {Known} */
export const nothing = () => ({ won: {}, trial: null, tried: {}, gain: [1, 1, 1], visits: 0, asked: {}, served: [] });

/** What was stored, if it has the form; a page may have anything there. @param {any} stored @returns {Known} */
export function readKnown(stored) {
  const texts = (/** @type {any} */ map) => !!map && typeof map === "object" && Object.values(map).every((x) => typeof x === "string");
  const gain = (/** @type {any} */ list) => Array.isArray(list) && list.length === 3 && list.every(Number.isFinite);
  const { won, trial, tried, visits, asked = {}, served = [] } = stored ?? {};
  const places = typeof asked === "object" && Object.values(asked ?? {}).every((at) => Number.isInteger(at?.after) && Number.isInteger(at.idle));
  const right = texts(won) && !!tried && Object.values(tried).every(texts) && gain(stored.gain) && Number.isInteger(visits) && places && Array.isArray(served);
  return right && (!trial || gain(trial.gain)) ? { won, trial: trial ?? null, tried, gain: stored.gain, visits, asked: asked ?? {}, served } : nothing();
}

/**
 * The browser's engine with its version: another one compiles Wasm in another way.
 * @param {string} userAgent
 */
export function browserOf(userAgent) {
  const found = /(Firefox|Chrome|HeadlessChrome|Version)\/(\d+)/.exec(userAgent);
  return found ? `${found[1].replace("Headless", "")} ${found[2]}` : "unknown";
}

/** @type {Store} */
export const indexedStore = {
  load: (key) => within("readonly", (store) => store.get(key)),
  save: (key, known) => within("readwrite", (store) => store.put(known, key)),
};

/**
 * Private windows and full disks may refuse: then nothing is remembered.
 * @param {IDBTransactionMode} mode
 * @param {(store: IDBObjectStore) => IDBRequest} use
 * @returns {Promise<any>}
 */
async function within(mode, use) {
  try {
    const opening = indexedDB.open(DATABASE, 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore(STORE);
    const database = await finished(opening);
    try {
      return await finished(use(database.transaction(STORE, mode).objectStore(STORE)));
    } finally {
      database.close();
    }
  } catch {
    return undefined;
  }
}

/** @template T @param {IDBRequest<T>} request @returns {Promise<T>} */
const finished = (request) =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
