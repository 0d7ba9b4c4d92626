/** A session in this thread: its files come from a server, from the cache or from the page. */
import { EngineError } from "../engine/errors.js";
import { transport } from "../sdk/bundle_fetch.js";
import { InferenceSession } from "../sdk/session.js";
import { filesFetch, FILES } from "./files.js";
import { forget, storedFetch } from "./store.js";

/** @import { SessionOptions as PageOptions } from "../sdk/session.js" */
/** @import { Files } from "./files.js" */
/** @import { Progress, StoreOptions } from "./store.js" */
/** @typedef {PageOptions & StoreOptions} SessionOptions */

/** By the folder of their bundle. @type {Map<string, (url: URL) => Promise<Response>>} */
const sources = new Map();
transport.fetch = (url) => {
  const folder = [...sources.keys()].filter((base) => url.href.startsWith(base)).sort((a, b) => b.length - a.length)[0];
  return (sources.get(folder) ?? fetch)(url);
};

/**
 * Opens a bundle. Files that were kept from a former visit are compared with their hashes
 * as new ones are; where one differs, all come from the server again.
 * @param {string | URL | Files} source address of its manifest.json, or its files by name
 * @param {SessionOptions} options
 */
export async function open(source, options) {
  const address = typeof source === "string" || source instanceof URL;
  const base = address ? new URL(source, globalThis.location?.href ?? import.meta.url) : new URL(`${FILES}${sources.size}/manifest.json`);
  let kept = 0;
  const onProgress = (/** @type {Progress} */ progress) => {
    kept += progress.kept;
    options.onProgress?.(progress);
  };
  const fetched = address ? storedFetch(base, { ...options, onProgress }) : filesFetch(base, source);
  sources.set(new URL(".", base).href, fetched);
  try {
    return await InferenceSession.create(base, options);
  } catch (e) {
    if (!kept || !(e instanceof EngineError)) throw e;
    await forget(true); // what was kept may be damaged
    return await InferenceSession.create(base, options);
  } finally {
    if (address) await forget();
  }
}
