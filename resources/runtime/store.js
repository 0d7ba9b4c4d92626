/** What is kept by content: the files of a bundle in pieces, under their hash. */
import { Download, KEPT, persistently } from "./download.js";
import { openKept } from "./kept.js";
import { later } from "./later.js";

/** @import { FileEntry } from "../types/engine.js" */
/** @import { Kept } from "./kept.js" */
/**
 * `bytes` of the `nbytes` of a file are there; `kept` of them came from the cache. `loaded` of `total`
 * are there of all weights and the other files asked for so far.
 * @typedef {{file: string, bytes: number, nbytes: number, kept: number, loaded: number, total: number}} Progress
 */
/**
 * @typedef {object} StoreOptions
 * @property {boolean} [cache] keep what was downloaded; true when absent
 * @property {(progress: Progress) => void} [onProgress]
 * @property {number} [piece_bytes] how much is kept at once
 * @property {number} [wait_ms] before the first new try; it doubles with each
 * @property {number} [keep_ms] before what has come is kept
 */

const PIECE_BYTES = 2 ** 22;
const WAIT_MS = 250;
const KEEP_MS = 1000;

/**
 * A `fetch` for the files below `base`, whose manifest is asked for first; `replaced` says whether
 * the server has another manifest by now.
 * @param {URL} base address of the manifest
 * @param {StoreOptions} [options]
 * @param {(url: URL) => Promise<Response>} [before] takes files that were asked for before this manifest came
 */
export function storedFetch(base, { cache = true, onProgress = () => {}, piece_bytes = PIECE_BYTES, wait_ms = WAIT_MS, keep_ms = KEEP_MS } = {}, before = fetch) {
  let text = "";
  let first = false;
  const store = cache ? openKept().then((kept) => kept && later(roomy(kept), keep_ms)) : Promise.resolve(null);
  /** @type {Map<string, FileEntry>} */
  let entries = new Map();
  /** @type {Set<string>} */
  let counted = new Set();
  let [loaded, total] = [0, 0];

  /** @param {URL} url @returns {Promise<Response>} */
  const storedFetch = async (url) => {
    if (url.href === base.href) {
      const known = store.then((kept) => kept && kept.get(url.href));
      const response = await fetchManifest(url, store, wait_ms);
      first = (await known) === undefined;
      text = await response.clone().text();
      before = fetch;
      const manifest = parsed(text);
      entries = entriesOf(manifest, base);
      counted = new Set(entriesOf(manifest?.weights, base).keys());
      [loaded, total] = [0, [...counted].reduce((n, file) => n + (entries.get(file)?.nbytes ?? 0), 0)];
      return response;
    }
    const entry = entries.get(url.href);
    if (!entry) return before(url);
    if (!counted.has(url.href)) total += entry.nbytes;
    counted.add(url.href);
    const download = await Download.open(url, entry, await store, { piece_bytes, wait_ms, first });
    let last = 0;
    return new Response(
      download.stream((progress) => {
        loaded += progress.bytes - last;
        last = progress.bytes;
        onProgress({ ...progress, loaded, total });
      }),
    );
  };
  const now = () => fetch(base, { cache: "no-cache" }).then(async (response) => (response.ok ? response.text() : text)).catch(() => text);
  return { fetch: storedFetch, replaced: async () => text !== "" && (await now()) !== text };
}

/** With what waits for its place. */
const openStore = () => openKept().then((kept) => kept && later(kept));

/**
 * Forgets pieces that no kept manifest names; with `true` all, with the address of a manifest those of
 * its bundle.
 * @param {boolean | string | URL} [what]
 */
export async function forget(what = false) {
  const kept = await openStore();
  if (!kept) return;
  const keys = await kept.keys();
  const manifests = keys.filter((key) => !key.startsWith(KEPT));
  const address = typeof what === "boolean" ? null : new URL(what, globalThis.location?.href ?? import.meta.url).href;
  /** @type {Set<string>} */
  const named = new Set();
  for (const key of address ? [address] : what ? [] : manifests)
    for (const { sha256 } of entriesOf(parsed(new TextDecoder().decode(await kept.get(key))), new URL(key)).values()) named.add(sha256);
  const stale = keys.filter((key) => (key.startsWith(KEPT) ? named.has(hashOf(key)) === (address !== null) : address ? key === address : what));
  await Promise.all(stale.map((key) => kept.delete(key)));
}

/** Forgets one file. @param {string} sha256 */
export async function forgetFile(sha256) {
  const kept = await openStore();
  const keys = (await kept?.keys()) ?? [];
  await Promise.all(keys.filter((key) => hashOf(key) === sha256).map((key) => kept?.delete(key)));
}

/** Of a piece's key. @param {string} key */
const hashOf = (key) => (key.startsWith(KEPT) ? key.slice(KEPT.length).split("/")[0] : "");

/** @param {string} text */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/**
 * Nothing of it fails: where there is no room, what no manifest names is forgotten once, and then
 * nothing more is kept. A full cache costs the next visit its time, not this one its answer.
 * @param {Kept} kept
 * @returns {Kept}
 */
function roomy(kept) {
  let [cleared, full] = [false, false];
  const put = async (/** @type {string} */ key, /** @type {Uint8Array<ArrayBuffer>} */ bytes) => {
    if (full) return;
    try {
      await kept.put(key, bytes);
    } catch {
      full = cleared;
      cleared = true;
      if (full) return;
      await forget().catch(() => {});
      await put(key, bytes);
    }
  };
  return { ...kept, get: (key) => kept.get(key).catch(() => undefined), put };
}

/**
 * The server's manifest; where it does not answer, the one that was kept.
 * @param {URL} url @param {Promise<Kept | null>} store @param {number} wait_ms
 */
async function fetchManifest(url, store, wait_ms) {
  try {
    const response = await persistently(async () => {
      const { status, body, headers } = await fetch(url, { cache: "no-cache" });
      const bytes = await new Response(body).arrayBuffer();
      // some browsers take what came before a cut for the whole
      if (!headers.has("Content-Encoding") && bytes.byteLength < Number(headers.get("Content-Length"))) throw new TypeError("the connection ended");
      return new Response(bytes, { status });
    }, wait_ms);
    const bytes = new Uint8Array(await response.clone().arrayBuffer());
    // a page of something else under its address would name nothing of what is kept
    if (response.ok && parsed(new TextDecoder().decode(bytes))?.format === "nnjit-bundle") store.then((kept) => kept?.put(url.href, bytes));
    return response;
  } catch (e) {
    const old = await (await store)?.get(url.href);
    if (old) return new Response(old);
    throw e;
  }
}

/**
 * Every file that a manifest names, by its address.
 * @param {unknown} manifest @param {URL} base
 */
function entriesOf(manifest, base) {
  /** @type {Map<string, FileEntry>} */
  const found = new Map();
  const walk = (/** @type {any} */ value) => {
    if (typeof value !== "object" || value === null) return;
    if (typeof value.file === "string" && /^[0-9a-f]{64}$/.test(value.sha256) && Number.isSafeInteger(value.nbytes)) found.set(new URL(value.file, base).href, value);
    else Object.values(value).forEach(walk);
  };
  walk(manifest);
  return found;
}
