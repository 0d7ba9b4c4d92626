/** The files of a bundle: fetched, and compared with their manifest. */
import { EngineError } from "../engine/errors.js";
import { EXTEND, PREFILL } from "../engine/plan.js";
import { sha256 } from "./digest.js";
import { MANIFEST_VERSION } from "./tensor.js";

/** Before weights came in several files. */
const ONE_FILE = 1;
const MANIFEST = "manifest.json";
/** How many files of weights come at once: as many as browsers ask one server for. */
const LANES = 6;

/** @import { Bundle, FileEntry, Manifest, Plan, Weights } from "../types/engine.js" */

/**
 * How a browser's own cache is asked for a file: it may hold one of an older version under the same
 * name, unless the name has the hash of what it holds.
 * @param {URL} url
 * @returns {RequestInit}
 */
export const freshness = ({ pathname }) => ({ cache: /[0-9a-f]{64}/.test(pathname) ? "default" : "no-cache" });

/** How files come: whoever keeps or brings them puts a function of its own here. */
export const transport = { fetch: (/** @type {URL} */ url) => fetch(url, freshness(url)) };

/**
 * Manifest and plans of a bundle.
 * @param {URL} base address of its manifest
 * @returns {Promise<Bundle>}
 */
export async function fetchBundle(base) {
  const bytes = await download(base, MANIFEST);
  const manifest = readManifest(bytes);
  await checkSeal(manifest, bytes);
  /** @type {Plan} */
  const plan = parse(await fetchFile(base, manifest.plan), manifest.plan.file);
  /** @type {Record<string, Plan>} */
  const others = {};
  const { prefill, extend } = manifest.generation ?? {};
  for (const [name, entry] of /** @type {const} */ ([[PREFILL, prefill], [EXTEND, extend]])) if (entry) others[name] = parse(await fetchFile(base, entry), entry.file);
  if (manifest.weights.nbytes !== plan.weights_bytes)
    throw new EngineError(
      `The bundle's plan wants ${plan.weights_bytes} bytes of weights, its manifest lists ${manifest.weights.nbytes}.`,
      "Export the bundle again.",
    );
  return { base, manifest, plan, others };
}

/** @param {Uint8Array<ArrayBuffer>} bytes @returns {Manifest} */
function readManifest(bytes) {
  const manifest = parse(bytes, MANIFEST);
  if (manifest?.format !== "nnjit-bundle") throw new EngineError("The manifest is not that of an NNJIT bundle.");
  if (manifest.version !== MANIFEST_VERSION && manifest.version !== ONE_FILE)
    throw new EngineError(`The bundle has version ${manifest.version}, this engine reads ${ONE_FILE} to ${MANIFEST_VERSION}.`, "Use the engine inside the bundle.");
  return manifest;
}

/**
 * A manifest has a hash of its own, made with zeros in the hash's place. Older bundles have none.
 * @param {Manifest} manifest @param {Uint8Array<ArrayBuffer>} bytes
 */
async function checkSeal({ sha256: seal }, bytes) {
  if (seal === undefined) return;
  const text = new TextDecoder().decode(bytes).replace(String(seal), "0".repeat(64));
  if ((await sha256(new TextEncoder().encode(text))) !== seal)
    throw new EngineError("manifest.json of the bundle was changed: its sha256 differs.", "Upload the whole bundle again.");
}

/** @param {Uint8Array} bytes @param {string} file */
function parse(bytes, file) {
  try {
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    throw new EngineError(`${file} of the bundle is not JSON.`, "Upload the whole bundle again.");
  }
}

/** @param {URL} base @param {string} file @returns {Promise<Response>} */
async function request(base, file) {
  let response;
  try {
    response = await transport.fetch(new URL(file, base));
  } catch (e) {
    throw unreachable(file, e);
  }
  if (!response.ok)
    throw new EngineError(`${file} of the bundle cannot be fetched: the server answers ${response.status}.`, "Upload the whole bundle.");
  return response;
}

/** A sentence for a connection that failed. @param {string} file @param {any} e */
const unreachable = (file, e) =>
  e instanceof EngineError ? e : new EngineError(`${file} of the bundle cannot be fetched: ${String(e?.message ?? e).replace(/[. ]+$/, "")}.`, "Check the address and the server.");

/** @param {URL} base @param {string} file */
async function download(base, file) {
  const response = await request(base, file);
  try {
    return new Uint8Array(await response.arrayBuffer());
  } catch (e) {
    throw unreachable(file, e); // it ended in the middle
  }
}

/** @param {URL} base @param {FileEntry} entry */
export async function fetchFile(base, entry) {
  const bytes = await download(base, entry.file);
  await check(entry, bytes);
  return bytes;
}

/** The files of the weights, in their order. @param {Weights} weights @returns {FileEntry[]} */
const shardsOf = (weights) => ("shards" in weights ? weights.shards : [weights]);

/**
 * Every file of the weights, some at once, the first ones first.
 * @param {Weights} weights
 * @param {(entry: FileEntry, offset: number) => Promise<void>} fetchShard
 */
export async function eachShard(weights, fetchShard) {
  let offset = 0;
  const queue = shardsOf(weights).map((entry) => ({ entry, offset: (offset += entry.nbytes) - entry.nbytes }));
  if (offset !== weights.nbytes)
    throw new EngineError(`The files of the weights have ${offset} bytes, the manifest says ${weights.nbytes}.`, "Export the bundle again.");
  const lane = async () => {
    // a lane that fails ends the others after the files that they are at
    for (let next = queue.shift(); next; next = queue.shift())
      await fetchShard(next.entry, next.offset).catch((e) => {
        queue.length = 0;
        throw e;
      });
  };
  await Promise.all(Array.from({ length: LANES }, lane));
}

/**
 * A file in parts, as they come; its hash is for who has all of it to check.
 * @param {URL} base
 * @param {FileEntry} entry
 * @param {(offset: number, bytes: Uint8Array<ArrayBuffer>) => void} take
 */
export async function streamFile(base, entry, take) {
  if (entry.nbytes === 0) return;
  const { body } = await request(base, entry.file);
  if (!body) throw new EngineError(`${entry.file} of the bundle is empty.`, "Export the bundle again.");
  const reader = body.getReader();
  let at = 0;
  for (;;) {
    const { done, value } = await reader.read().catch((e) => Promise.reject(unreachable(entry.file, e)));
    if (done) break;
    if (at + value.length > entry.nbytes) throw wrongSize(entry, at + value.length);
    take(at, value);
    at += value.length;
  }
  if (at !== entry.nbytes) throw wrongSize(entry, at);
}

/** @param {FileEntry} entry @param {Uint8Array<ArrayBuffer>} bytes */
export async function check(entry, bytes) {
  if (bytes.length !== entry.nbytes) throw wrongSize(entry, bytes.length);
  // the browser hashes no shared memory: a copy, until the hash is made
  const own = bytes.buffer instanceof ArrayBuffer ? bytes : bytes.slice();
  if ((await sha256(own)) !== entry.sha256) throw new WrongFile(entry);
}

/** A file whose bytes are not those of its hash. */
export class WrongFile extends EngineError {
  /** @param {FileEntry} entry */
  constructor({ file, sha256 }) {
    super(`${file} of the bundle is not the file of its manifest: its sha256 differs.`, "Upload the whole bundle again.");
    this.file = file;
    this.sha256 = sha256;
  }
}

/** @param {FileEntry} entry @param {number} nbytes */
const wrongSize = (entry, nbytes) =>
  new EngineError(`${entry.file} of the bundle has ${nbytes} bytes, its manifest says ${entry.nbytes}.`, "Upload the whole bundle again.");
