/** IndexedDB with one table over a map, as far as the runtime's store uses it. */

/** @param {Map<string, Uint8Array>} table */
export function fakeDatabase(table) {
  const request = (/** @type {() => any} */ read) => {
    const made = /** @type {any} */ ({});
    queueMicrotask(() => {
      made.result = read();
      made.onupgradeneeded?.();
      made.onsuccess?.();
    });
    return made;
  };
  const transaction = () => {
    const made = /** @type {any} */ ({});
    const changed = (/** @type {unknown} */ _) => setTimeout(() => made.oncomplete?.());
    const store = {
      transaction: made,
      get: (key) => request(() => table.get(key)?.slice().buffer),
      getAllKeys: () => request(() => [...table.keys()]),
      put: (bytes, key) => changed(table.set(key, new Uint8Array(bytes))),
      delete: (key) => changed(table.delete(key)),
    };
    return { objectStore: () => store };
  };
  return { open: () => request(() => ({ createObjectStore() {}, transaction })) };
}
