/** The page of cuts.py: opens the bundle, runs it, and spoils what the browser kept. */
import { forget, InferenceSession, Tensor } from "/resources/runtime/index.js";
import { keepAll } from "/resources/runtime/later.js";

const { put } = IDBObjectStore.prototype;

/**
 * The hash of all outputs, or what was said instead.
 * @param {boolean} fresh nothing of former visits is used
 */
export async function visit(fresh) {
  try {
    if (fresh) await forget(true);
    const session = await InferenceSession.create("/bundle/manifest.json");
    const outputs = await session.run(Object.fromEntries(session.inputMetadata.map(feed)));
    const bytes = await new Blob(Object.values(outputs).map(({ data }) => data)).arrayBuffer();
    await session.release();
    const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
    return JSON.stringify({ answer: hash.toHex?.() ?? hash.join(" ") });
  } catch (e) {
    return JSON.stringify({ kind: e?.name, error: String(e?.message ?? e) });
  } finally {
    await keepAll();
  }
}

function feed({ name, type, shape }) {
  const dims = shape.map((size) => (typeof size === "number" ? size : 1));
  const size = dims.reduce((a, b) => a * b, 1);
  const data = type.endsWith("64") ? new BigInt64Array(size).fill(1n) : new Float32Array(size).fill(0.5);
  return [name, new Tensor(type, data, dims)];
}

/** @param {IDBTransactionMode} mode */
async function table(mode) {
  const opening = indexedDB.open("nnjit-bundles-1", 1);
  await new Promise((done) => (opening.onsuccess = done));
  return opening.result.transaction("files", mode).objectStore("files");
}

/** @template T @param {IDBRequest<T>} request @returns {Promise<T>} */
const answer = (request) => new Promise((done) => (request.onsuccess = () => done(request.result)));

/**
 * Loses or damages some of what is kept.
 * @param {number} share @param {boolean} damage
 */
export async function spoil(share, damage) {
  let spoiled = 0;
  for (const key of await answer((await table("readonly")).getAllKeys())) {
    const blob = await answer((await table("readonly")).get(key));
    const bytes = new Uint8Array(await blob.arrayBuffer());
    if (Math.random() > share || !bytes.length) continue;
    bytes[Math.floor(Math.random() * bytes.length)] ^= 1 << Math.floor(Math.random() * 8);
    const store = await table("readwrite");
    await answer(damage ? put.call(store, new Blob([bytes]), key) : store.delete(key));
    spoiled++;
  }
  return JSON.stringify(spoiled);
}

/** The store refuses a share of what it should keep. @param {number} share */
export async function fill(share) {
  IDBObjectStore.prototype.put = function (...given) {
    if (Math.random() < share) throw new DOMException("no room", "QuotaExceededError");
    return put.apply(this, given);
  };
  return "0";
}
