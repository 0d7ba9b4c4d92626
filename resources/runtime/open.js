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
transport.fetch = (url) => {
  const folder = [...sources.keys()].filter((base) => url.href.startsWith(base)).sort((a, b) => b.length - a.length)[0];
  return (sources.get(folder) ?? fetch)(url);
};

/**
 * Opens a bundle. Files that were kept from a former visit are compared with their hashes
 * as new ones are; one that differs comes from the server again, and if that is not enough, all do.
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
  const create = () => InferenceSession.create(base, options);
  const session = await create()
    .catch(async (e) => {
      if (!kept || !(e instanceof WrongFile)) throw e;
      await forgetFile(e.sha256);
      return create();
    })
    .catch(async (e) => {
      if (!kept || !(e instanceof EngineError)) throw e;
      await forget(base); // what was kept may be damaged
      return create();
    })
    .finally(() => void (address && forget().catch(() => {}))); // nobody waits for it
  return session;
}
