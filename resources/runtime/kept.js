/** Where a page keeps files between visits: the Cache API, or IndexedDB where there is none. */

/**
 * @typedef {object} Kept
 * @property {(key: string) => Promise<ArrayBuffer | undefined>} get
 * @property {(key: string, bytes: Uint8Array<ArrayBuffer>) => Promise<unknown>} put rejects where there is no room
 * @property {() => Promise<string[]>} keys
 * @property {(key: string) => Promise<unknown>} delete
 */

const NAME = "nnjit-bundles-1";
const TABLE = "files";

/**
 * What this page may use: the Cache API in secure contexts, IndexedDB elsewhere, null where a
 * browser refuses both.
 * @returns {Promise<Kept | null>}
 */
export async function openKept() {
  for (const open of [openCache, openDatabase])
    try {
      return await open();
    } catch {
      // the next one
    }
  return null;
}

/** @returns {Promise<Kept>} */
async function openCache() {
  const cache = await globalThis.caches.open(NAME);
  return {
    get: async (key) => (await cache.match(key))?.arrayBuffer(),
    put: (key, bytes) => cache.put(key, new Response(bytes)),
    keys: async () => (await cache.keys()).map(({ url }) => url),
    delete: (key) => cache.delete(key),
  };
}

/** @returns {Promise<Kept>} */
async function openDatabase() {
  const opening = globalThis.indexedDB.open(NAME, 1);
  opening.onupgradeneeded = () => opening.result.createObjectStore(TABLE);
  const database = await answer(opening);
  const table = (/** @type {IDBTransactionMode} */ mode) => database.transaction(TABLE, mode).objectStore(TABLE);
  return {
    get: (key) => answer(table("readonly").get(key)),
    put: (key, bytes) => committed(table("readwrite"), (store) => store.put(bytes.slice().buffer, key)),
    keys: async () => /** @type {string[]} */ (await answer(table("readonly").getAllKeys())),
    delete: (key) => committed(table("readwrite"), (store) => store.delete(key)),
  };
}

/** @template T @param {IDBRequest<T>} request @returns {Promise<T>} */
const answer = (request) =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });

/** A full disk is noticed when a transaction ends. @param {IDBObjectStore} store @param {(store: IDBObjectStore) => unknown} change */
const committed = (store, change) =>
  new Promise((resolve, reject) => {
    store.transaction.oncomplete = () => resolve(undefined);
    store.transaction.onabort = () => reject(store.transaction.error);
    change(store);
  });
