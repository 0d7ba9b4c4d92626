/** IndexedDB with one table of blobs over a map, as far as the runtime's store uses it. */

/**
 * @param {Map<string, Uint8Array>} table
 * @param {{isFull: (key: string) => boolean, keys: () => unknown}} [disk] where a key finds no room, and what is listed
 */
export function fakeDatabase(table, disk = { isFull: () => false, keys: () => [...table.keys()] }) {
  const request = (/** @type {() => any} */ read) => {
    const made = /** @type {any} */ ({});
    queueMicrotask(async () => {
      const value = read();
      made.result = value instanceof Promise ? await value : value;
      made.onupgradeneeded?.();
      made.onsuccess?.();
    });
    return made;
  };
  const transaction = () => {
    const made = /** @type {any} */ ({});
    const put = async (/** @type {Blob} */ blob, /** @type {string} */ key) => {
      const bytes = new Uint8Array(await blob.arrayBuffer());
      if (disk.isFull(key)) {
        made.error = new DOMException("no room", "QuotaExceededError");
        return made.onabort();
      }
      table.set(key, bytes);
      made.oncomplete();
    };
    const store = {
      transaction: made,
      get: (key) => request(() => (table.has(key) ? new Blob([/** @type {any} */ (table.get(key))]) : undefined)),
      getAllKeys: () => request(() => disk.keys()),
      put,
      delete: (key) => setTimeout(() => made.oncomplete(table.delete(key))),
    };
    return { objectStore: () => store };
  };
  return { open: () => request(() => ({ createObjectStore() {}, transaction })) };
}
