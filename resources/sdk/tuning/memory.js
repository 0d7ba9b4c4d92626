/** What tuning found on this device: in IndexedDB, by bundle, browser and tier. */

/**
 * `won`: settings by workload that stay; `trial`: the kernel that did better in place and has yet to
 * prove itself in use; `tried`: outcomes by workload and settings; `gain` of the model, with its interval.
 * @typedef {[number, number, number]} Gain
 * @typedef {{won: Record<string, string>, trial: {workload: string, settings: string, gain: Gain} | null, tried: Record<string, Record<string, string>>, gain: Gain, visits: number}} Known
 */
/** @typedef {{load: (key: string) => Promise<unknown>, save: (key: string, known: Known) => Promise<void>}} Store */

const DATABASE = "nnjit-tuning";
const STORE = "devices";

/** @returns {Known} */
export const nothing = () => ({ won: {}, trial: null, tried: {}, gain: [1, 1, 1], visits: 0 });

/** What was stored, if it has the form; a page may have anything there. @param {any} stored @returns {Known} */
export function readKnown(stored) {
  const texts = (/** @type {any} */ map) => !!map && typeof map === "object" && Object.values(map).every((x) => typeof x === "string");
  const gain = (/** @type {any} */ list) => Array.isArray(list) && list.length === 3 && list.every(Number.isFinite);
  const { won, trial, tried, visits } = stored ?? {};
  const right = texts(won) && !!tried && Object.values(tried).every(texts) && gain(stored.gain) && Number.isInteger(visits);
  return right && (!trial || gain(trial.gain)) ? { won, trial: trial ?? null, tried, gain: stored.gain, visits } : nothing();
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
