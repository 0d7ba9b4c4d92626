/** A file that comes in pieces, over as many connections as it takes. */
import { EngineError } from "../engine/errors.js";
import { freshness } from "../sdk/bundle_fetch.js";

/** @import { FileEntry } from "../types/engine.js" */
/** @import { Kept } from "./kept.js" */
/** `first`: the browser's own cache has nothing of it, and need not. @typedef {{piece_bytes: number, wait_ms: number, first: boolean}} DownloadOptions */

/** Of what is kept: no request goes to it, it is a name. */
export const KEPT = "https://kept.invalid/";
const TRIES = 6;

/** One file: pieces of the cache, and the rest from the server. */
export class Download {
  #url;
  #entry;
  #kept_files;
  #options;
  #at = 0;
  #kept = 0;
  /** @type {Promise<Uint8Array<ArrayBuffer> | null> | null} */ #found = null;
  /** @type {Promise<unknown> | undefined} */ #keeping;
  /** From `#at` on. @type {Response | null} */
  #response = null;
  /** Of its body, once parts were read. @type {ReadableStreamDefaultReader<Uint8Array<ArrayBuffer>> | null} */
  #reader = null;
  /** What the server sent beyond the present piece. @type {Uint8Array<ArrayBuffer>} */
  #rest = new Uint8Array();

  /**
   * @param {URL} url @param {FileEntry} entry @param {Kept | null} kept
   * @param {DownloadOptions} options
   */
  constructor(url, entry, kept, options) {
    this.#url = url;
    this.#entry = entry;
    this.#kept_files = kept;
    this.#options = options;
  }

  /**
   * @param {URL} url @param {FileEntry} entry @param {Kept | null} kept
   * @param {DownloadOptions} options
   */
  static async open(url, entry, kept, options) {
    const download = new Download(url, entry, kept, options);
    // a file that is not there is answered as such, not as a broken stream
    if (entry.nbytes && !(await download.#find())) await persistently(() => download.#connect(0), options.wait_ms);
    return download;
  }

  /** @param {(progress: {file: string, bytes: number, nbytes: number, kept: number}) => void} onProgress */
  stream(onProgress) {
    const { file, nbytes } = this.#entry;
    return new ReadableStream({
      pull: async (controller) => {
        if (this.#at >= nbytes) return controller.close();
        controller.enqueue(await this.#piece());
        onProgress({ file, bytes: this.#at, nbytes, kept: this.#kept });
        if (this.#at >= nbytes) controller.close();
      },
      cancel: () => this.#leave(),
    });
  }

  /** @param {number} at */
  #key(at) {
    return `${KEPT}${this.#entry.sha256}/${at}-${this.#options.piece_bytes}`;
  }

  /** The next piece, where it was kept whole. It is looked for once. */
  async #find() {
    const size = this.#size();
    this.#found ??= Promise.resolve(this.#kept_files?.get(this.#key(this.#at))).then((old) => (old?.byteLength === size ? new Uint8Array(old) : null));
    return this.#found;
  }

  async #piece() {
    const size = this.#size();
    const old = await this.#find();
    this.#found = null;
    if (old) await this.#leave();
    const bytes = old ?? (await this.#read(size));
    const key = this.#key(this.#at);
    this.#at += size;
    if (old) this.#kept += size;
    else {
      await this.#keeping; // one piece of a file waits for its place, no more
      this.#keeping = this.#kept_files?.put(key, bytes);
    }
    return bytes;
  }

  #size() {
    return Math.min(this.#options.piece_bytes, this.#entry.nbytes - this.#at);
  }

  /** @param {number} size @returns {Promise<Uint8Array<ArrayBuffer>>} what follows, over as many connections as it takes */
  async #read(size) {
    const whole = await this.#atOnce(size);
    if (whole) return whole;
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

  /**
   * All of a file that is one piece, which browsers give sooner than its parts; null after a cut.
   * @param {number} size
   */
  async #atOnce(size) {
    if (size < this.#entry.nbytes || !this.#response) return null;
    const bytes = await this.#response.arrayBuffer().catch(() => null);
    this.#response = null;
    return bytes && bytes.byteLength >= size ? new Uint8Array(bytes, 0, size) : null;
  }

  /** @param {number} at @param {number} most @returns {Promise<Uint8Array<ArrayBuffer>>} some of the bytes from `at` on */
  async #next(at, most) {
    if (!this.#response) await this.#connect(at);
    if (!this.#rest.length) {
      this.#reader ??= this.#response?.body?.getReader() ?? null;
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
    await (this.#reader ?? this.#response?.body)?.cancel().catch(() => {});
    this.#reader = this.#response = null;
    this.#rest = new Uint8Array();
  }

  /** @param {number} at asks for the bytes from there on */
  async #connect(at) {
    const { file } = this.#entry;
    /** @type {RequestInit} */
    const how = this.#options.first ? { cache: "no-store" } : freshness(this.#url);
    const response = await fetch(this.#url, { ...how, ...(at ? { headers: { Range: `bytes=${at}-` } } : {}) });
    if (!response.ok) throw new EngineError(`${file} of the bundle cannot be fetched: the server answers ${response.status}.`, "Upload the whole bundle.");
    this.#response = response;
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
export async function persistently(attempt, wait_ms, progress = () => 0) {
  for (let failures = 1, last = progress(); ; failures++)
    try {
      return await attempt();
    } catch (e) {
      if (progress() !== last) [failures, last] = [1, progress()];
      if (failures >= TRIES || !(e instanceof TypeError || e instanceof Cut)) throw e;
      await new Promise((resume) => setTimeout(resume, wait_ms * 2 ** (failures - 1)));
    }
}
