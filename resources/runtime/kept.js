/** Where a page keeps files between visits: blobs in IndexedDB, faster to write and to read than the Cache API. */

/**
 * @typedef {object} Kept
 * @property {(key: string) => Promise<ArrayBuffer | undefined>} get
 * @property {(key: string, bytes: Uint8Array<ArrayBuffer>) => Promise<unknown>} put rejects where there is no room
 * @property {() => Promise<string[]>} keys
 * @property {(key: string) => Promise<unknown>} delete
 */

const NAME = "nnjit-bundles-1";
const TABLE = "files";

/** Null where a browser refuses. @returns {Promise<Kept | null>} */
export async function openKept() {
  const opening = globalThis.indexedDB?.open(NAME, 1);
  if (!opening) return null;
  opening.onupgradeneeded = () => opening.result.createObjectStore(TABLE);
  const database = await answer(opening).catch(() => null);
  if (!database) return null;
  // async functions: a browser that evicts the database closes it, and then this throws
  const table = (/** @type {IDBTransactionMode} */ mode) => database.transaction(TABLE, mode).objectStore(TABLE);
  return {
    get: async (key) => (await answer(table("readonly").get(key)))?.arrayBuffer(),
    put: async (key, bytes) => committed(table("readwrite"), (store) => store.put(new Blob([bytes]), key)),
    keys: async () => /** @type {string[]} */ (await answer(table("readonly").getAllKeys())),
    delete: async (key) => committed(table("readwrite"), (store) => store.delete(key)),
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
