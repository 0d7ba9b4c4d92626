/** A session in this thread: its files come from a server, from the cache or from the page. */
import { EngineError } from "../engine/errors.js";
import { transport, WrongFile } from "../sdk/bundle_fetch.js";
import { InferenceSession } from "../sdk/session.js";
import { filesFetch, FILES } from "./files.js";
import { forget, forgetFile, storedFetch } from "./store.js";

/** @import { SessionOptions as PageOptions } from "../sdk/session.js" */
/** @import { Files } from "./files.js" */
/** @import { Progress, StoreOptions } from "./store.js" */
/** @typedef {PageOptions & StoreOptions} SessionOptions */

/** By the folder of their bundle. @type {Map<string, (url: URL) => Promise<Response>>} */
const sources = new Map();
const plainFetch = transport.fetch;
transport.fetch = (url) => {
  const folder = [...sources.keys()].filter((base) => url.href.startsWith(base)).sort((a, b) => b.length - a.length)[0];
  return (sources.get(folder) ?? plainFetch)(url);
};
/** A damaged file that was kept comes again, then all kept files of the bundle do. */
const ATTEMPTS = 3;

/**
 * Opens a bundle. Files that were kept from a former visit are compared with their hashes
 * as new ones are; one that differs comes from the server again, and if that is not enough, all do.
 * A bundle that was replaced while it came is opened as it is now.
 * @param {string | URL | Files} source address of its manifest.json, or its files by name
 * @param {SessionOptions} options
 */
export async function open(source, options) {
  if (typeof source === "string" || source instanceof URL) return openAt(new URL(source, globalThis.location?.href ?? import.meta.url), options);
  const base = new URL(`${FILES}${sources.size}/manifest.json`);
  sources.set(new URL(".", base).href, filesFetch(base, source));
  return InferenceSession.create(base, options);
}

/** @param {URL} base @param {SessionOptions} options */
async function openAt(base, options) {
  /** Of which something was kept. @type {Set<string>} */
  const old = new Set();
  const onProgress = (/** @type {Progress} */ progress) => {
    if (progress.kept) old.add(progress.file);
    options.onProgress?.(progress);
  };
  const folder = new URL(".", base).href;
  const store = storedFetch(base, { ...options, onProgress }, sources.get(folder));
  sources.set(folder, store.fetch);
  try {
    for (let attempt = 1; ; attempt++) {
      old.clear();
      try {
        return await InferenceSession.create(base, options);
      } catch (e) {
        if (!(e instanceof EngineError)) throw e;
        const damaged = e instanceof WrongFile && old.has(e.file);
        // without a place to keep files there is nothing to forget
        if (e instanceof WrongFile) await (attempt === 1 || !damaged ? forgetFile(e.sha256) : forget(base)).catch(() => {});
        if (attempt === ATTEMPTS || !(damaged || (await store.replaced()))) throw e;
      }
    }
  } finally {
    forget().catch(() => {}); // nobody waits for it
  }
}
