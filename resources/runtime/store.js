/** Downloads that survive a cut and are kept by content: the files of a bundle in pieces, under their hash. */
import { EngineError } from "../engine/errors.js";

/** @import { FileEntry } from "../types/engine.js" */
/** `bytes` of `nbytes` are there; `kept` of them came from the cache. @typedef {{file: string, bytes: number, nbytes: number, kept: number}} Progress */
/**
 * @typedef {object} StoreOptions
 * @property {boolean} [cache] keep what was downloaded (Cache API); true when absent
 * @property {(progress: Progress) => void} [onProgress]
 * @property {number} [piece_bytes] how much is kept at once
 * @property {number} [wait_ms] before the first new try; it doubles with each
 */

const CACHE = "nnjit-bundles-1";
/** No request goes to it: a name for what lies in the cache. */
const KEPT = "https://kept.invalid/";
const PIECE_BYTES = 2 ** 22;
const TRIES = 6;
const WAIT_MS = 250;

/**
 * A `fetch` for the files below `base`, whose manifest is asked for first.
 * @param {URL} base address of the manifest
 * @param {StoreOptions} [options]
 */
export function storedFetch(base, { cache = true, onProgress = () => {}, piece_bytes = PIECE_BYTES, wait_ms = WAIT_MS } = {}) {
  const kept = cache ? open() : Promise.resolve(null);
  /** @type {Map<string, FileEntry>} */
  let entries = new Map();

  /** @param {URL} url @returns {Promise<Response>} */
  return async (url) => {
    if (url.href === base.href) {
      const response = await fetchManifest(url, await kept, wait_ms);
      entries = entriesOf(await response.clone().json().catch(() => null), base);
      return response;
    }
    const entry = entries.get(url.href);
    if (!entry) return fetch(url);
    const stored = await kept;
    const first = await Download.open(url, entry, stored, { piece_bytes, wait_ms });
    return new Response(first.stream(onProgress));
  };
}

/** Forgets pieces that no kept manifest names; with `everything` all. @param {boolean} [everything] */
export async function forget(everything = false) {
  const cache = await open();
  if (!cache) return;
  const keys = await cache.keys();
  /** @type {Set<string>} */
  const named = new Set();
  if (!everything)
    for (const key of keys.filter(({ url }) => !url.startsWith(KEPT)))
      for (const { sha256 } of entriesOf(await (await cache.match(key))?.json().catch(() => null), new URL(key.url)).values()) named.add(sha256);
  const stale = keys.filter(({ url }) => everything || (url.startsWith(KEPT) && !named.has(url.slice(KEPT.length).split("/")[0])));
  await Promise.all(stale.map((key) => cache.delete(key)));
}

/** The cache of this origin, or null where the browser has none: no secure context, or a private window. */
async function open() {
  try {
    return await globalThis.caches.open(CACHE);
  } catch {
    return null;
  }
}

/**
 * The server's manifest; where it does not answer, the one that was kept.
 * @param {URL} url @param {Cache | null} cache @param {number} wait_ms
 */
async function fetchManifest(url, cache, wait_ms) {
  try {
    const response = await persistently(async () => {
      const { status, body } = await fetch(url, { cache: "no-cache" });
      return new Response(await new Response(body).arrayBuffer(), { status });
    }, wait_ms);
    if (response.ok) await keep(cache, url.href, response.clone());
    return response;
  } catch (e) {
    const old = await cache?.match(url.href);
    if (old) return old;
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

/** One file: pieces of the cache, and the rest from the server. */
class Download {
  #url;
  #entry;
  #cache;
  #options;
  #at = 0;
  #kept = 0;
  /** From `#at` on. @type {ReadableStreamDefaultReader<Uint8Array<ArrayBuffer>> | null} */
  #reader = null;
  /** What the server sent beyond the present piece. @type {Uint8Array<ArrayBuffer>} */
  #rest = new Uint8Array();

  /**
   * @param {URL} url @param {FileEntry} entry @param {Cache | null} cache
   * @param {{piece_bytes: number, wait_ms: number}} options
   */
  constructor(url, entry, cache, options) {
    this.#url = url;
    this.#entry = entry;
    this.#cache = cache;
    this.#options = options;
  }

  /**
   * @param {URL} url @param {FileEntry} entry @param {Cache | null} cache
   * @param {{piece_bytes: number, wait_ms: number}} options
   */
  static async open(url, entry, cache, options) {
    const download = new Download(url, entry, cache, options);
    // a file that is not there is answered as such, not as a broken stream
    if (entry.nbytes && !(await cache?.match(download.#key(0)))) await persistently(() => download.#connect(0), options.wait_ms);
    return download;
  }

  /** @param {(progress: Progress) => void} onProgress */
  stream(onProgress) {
    const { file, nbytes } = this.#entry;
    return new ReadableStream({
      pull: async (controller) => {
        if (this.#at >= nbytes) return controller.close();
        controller.enqueue(await this.#piece());
        onProgress({ file, bytes: this.#at, nbytes, kept: this.#kept });
        if (this.#at >= nbytes) controller.close();
      },
      cancel: () => this.#reader?.cancel(),
    });
  }

  /** @param {number} at */
  #key(at) {
    return `${KEPT}${this.#entry.sha256}/${at}-${this.#options.piece_bytes}`;
  }

  async #piece() {
    const size = Math.min(this.#options.piece_bytes, this.#entry.nbytes - this.#at);
    const key = this.#key(this.#at);
    const old = await this.#cache?.match(key).then((response) => response?.arrayBuffer());
    const found = old?.byteLength === size;
    if (found) await this.#leave();
    const bytes = found ? new Uint8Array(old) : await this.#read(size);
    this.#at += size;
    if (found) this.#kept += size;
    else await keep(this.#cache, key, new Response(bytes));
    return bytes;
  }

  /** @param {number} size @returns {Promise<Uint8Array<ArrayBuffer>>} what follows, over as many connections as it takes */
  async #read(size) {
    const bytes = new Uint8Array(size);
    let have = 0;
    const fill = async () => {
      while (have < size) {
        const some = await this.#next(this.#at + have, size - have);
        bytes.set(some, have);
        have += some.length;
      }
    };
    await persistently(fill, this.#options.wait_ms, () => have);
    return bytes;
  }

  /** @param {number} at @param {number} most @returns {Promise<Uint8Array<ArrayBuffer>>} some of the bytes from `at` on */
  async #next(at, most) {
    if (!this.#rest.length) {
      if (!this.#reader) await this.#connect(at);
      const { value } = (await this.#reader?.read().catch(() => null)) ?? {};
      if (!value) {
        await this.#leave();
        throw new Cut(this.#entry, at);
      }
      this.#rest = value;
    }
    const some = this.#rest.subarray(0, most);
    this.#rest = this.#rest.subarray(some.length);
    return some;
  }

  /** The connection does not stand at the next byte any more. */
  async #leave() {
    await this.#reader?.cancel().catch(() => {});
    this.#reader = null;
    this.#rest = new Uint8Array();
  }

  /** @param {number} at asks for the bytes from there on */
  async #connect(at) {
    const { file } = this.#entry;
    const response = await fetch(this.#url, at ? { headers: { Range: `bytes=${at}-` } } : {});
    if (!response.ok) throw new EngineError(`${file} of the bundle cannot be fetched: the server answers ${response.status}.`, "Upload the whole bundle.");
    this.#reader = response.body?.getReader() ?? null;
    // a server without ranges sends the file from its beginning
    for (let skip = response.status === 206 ? 0 : at; skip > 0; ) skip -= (await this.#next(at - skip, skip)).length;
  }
}

/** The connection ended before the file did. */
class Cut extends EngineError {
  /** @param {FileEntry} entry @param {number} at */
  constructor({ file, nbytes }, at) {
    super(`The connection ended after ${at} of ${nbytes} bytes of ${file}.`, "Load the page again: what has come is kept.");
  }
}

/**
 * Another try after a failure of the connection; other errors are final.
 * @template T
 * @param {() => Promise<T>} attempt
 * @param {number} wait_ms
 * @param {() => number} progress failures count from its last change on
 */
async function persistently(attempt, wait_ms, progress = () => 0) {
  for (let failures = 1, last = progress(); ; failures++)
    try {
      return await attempt();
    } catch (e) {
      if (progress() !== last) [failures, last] = [1, progress()];
      if (failures >= TRIES || !(e instanceof TypeError || e instanceof Cut)) throw e;
      await new Promise((resume) => setTimeout(resume, wait_ms * 2 ** (failures - 1)));
    }
}

/** A full or closed cache costs the next visit its time, not this one its answer. @param {Cache | null} cache @param {string} key @param {Response} response */
const keep = async (cache, key, response) => cache?.put(key, response).catch(() => {});
