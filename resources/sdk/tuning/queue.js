/**
 * Kernels of a compile service, whose address the page gave: asked for in small lots, and taken where the
 * bundle has their digest. A server that is late, gone or wrong is asked no more in this visit.
 */
import { EngineError } from "../../engine/errors.js";
import { sha256 } from "../digest.js";

/** @import { Lots } from "../../types/engine.js" */
/** @import { Kernel } from "./bench.js" */
/** @typedef {Kernel & {from: string}} Served as it is remembered */
/** @typedef {{kernels: Kernel[], after: number}} Lot `after` is for the next question */
/** @typedef {{from: string, kernels: number, problem: string}} QueueReport */

const WAIT_MS = 20_000;
const MOST_ANSWER = 1 << 16;
const MOST_KERNEL = 1 << 20;
/** Candidates of a lot; some of them may not compile. */
const LOT = 8;
const WIDEST_PANEL = 256;
/** What lite spaces are composed for: pages cannot ask for the caches, and equal questions are cached. */
const CACHES = { l1: 32 << 10, l2: 512 << 10 };
const MANY_REGISTERS = /Android|iPhone|iPad|aarch64|arm64/;

/**
 * The address with a slash at its end.
 * @param {string | URL} address of https, or of http on this very machine
 */
export function queueAddress(address) {
  let url;
  try {
    url = new URL(address);
  } catch {
    url = new URL("about:blank");
  }
  const local = ["localhost", "127.0.0.1", "[::1]"].includes(url.hostname);
  if (!(url.protocol === "https:" || (local && url.protocol === "http:")) || url.search || url.hash || url.username || url.password)
    throw new EngineError(`queue is "${address}".`, "Give the address of a compile service, of https and without a query.");
  return url.href.replace(/\/*$/, "/");
}

export class Queue {
  /** Why it is not asked any more. */ problem = "";
  /** Kernels that came. */ kernels = 0;
  #leaving = new AbortController();
  #closed = false;
  /** @type {Set<string>} of which it has nothing */ #unknown = new Set();

  /**
   * @param {string} from its address, with a slash at the end
   * @param {string} tier
   * @param {Lots} lots that are right
   * @param {number} [wait_ms] for an answer
   */
  constructor(from, tier, lots, wait_ms = WAIT_MS) {
    this.wait_ms = wait_ms;
    this.lots = lots;
    this.registers = MANY_REGISTERS.test(globalThis.navigator?.userAgent ?? "") ? 32 : 16;
    this.from = from;
    this.tier = tier;
  }

  /** The next kernels of a workload; null where there are none to be had in this visit.
   * @param {string} workload
   * @param {number} after as of the last lot
   * @param {(settings: string) => boolean} wanted
   * @returns {Promise<Lot | null>}
   */
  async next(workload, after, wanted) {
    const digest = this.lots[workload]?.[`${this.tier}/${this.registers}`]?.[after / LOT];
    if (!digest || this.problem || this.#closed || this.#unknown.has(workload)) return null;
    try {
      const question = { workload, tier: this.tier, registers: this.registers, ...CACHES, after };
      const words = Object.entries(question).map(([name, value]) => [name, String(value)]);
      const answer = await this.#fetch(`candidates?${new URLSearchParams(words)}`, MOST_ANSWER);
      if (!answer) {
        this.#unknown.add(workload);
        return null;
      }
      const lot = this.#read(JSON.parse(new TextDecoder().decode(answer)), workload, after);
      if ((await digestOf(lot.headers)) !== digest)
        throw new EngineError(lot.after < after + LOT ? `${this.from} asks to come again later.` : `${this.from} gave other kernels than the bundle lists.`);
      const kernels = lot.headers.filter(({ settings }) => wanted(settings)).map(async (header) => ({ header, bytes: await this.#bytes(header.sha256) }));
      return { kernels: await Promise.all(kernels), after: lot.after };
    } catch (e) {
      if (!this.#closed) this.distrust(e instanceof EngineError ? e.error : `${this.from} did not answer: ${/** @type {any} */ (e)?.message ?? e}.`);
      return null;
    }
  }

  /** It is asked no more in this visit. @param {string} why */
  distrust(why) {
    this.problem ||= why;
  }

  /** Ends what is under way. */
  close() {
    this.#closed = true;
    this.#leaving.abort();
  }

  /**
   * @param {any} answer
   * @param {string} workload
   * @param {number} asked
   * @returns {{headers: Kernel["header"][], after: number}}
   */
  #read(answer, workload, asked) {
    const { kernels, after } = answer ?? {};
    const right = Array.isArray(kernels) && kernels.length <= LOT && Number.isInteger(after) && after >= asked + kernels.length && after <= asked + LOT;
    if (!right || !kernels.every((each) => isHeader(each, workload, this.tier))) throw new EngineError(`${this.from} gave an answer that is none.`);
    const headers = kernels.map(({ settings, sha256, panels, parallel_extent }) => ({ workload, settings, tier: this.tier, sha256, panels, parallel_extent }));
    return { headers, after };
  }

  /** @param {string} digest */
  async #bytes(digest) {
    const bytes = await this.#fetch(`compiled/${digest}.wasm`, MOST_KERNEL);
    if (!bytes || (await sha256(bytes)) !== digest) throw new EngineError(`${this.from} gave a kernel that is not the one of its hash.`);
    this.kernels++;
    return bytes;
  }

  /**
   * At most so many bytes; null for what the server does not have.
   * @param {string} path
   * @param {number} most
   * @returns {Promise<Uint8Array<ArrayBuffer> | null>}
   */
  async #fetch(path, most) {
    const late = setTimeout(() => this.#leaving.abort(), this.wait_ms);
    try {
      const { signal } = this.#leaving;
      return await this.#body(await fetch(new URL(path, this.from), { credentials: "omit", referrerPolicy: "no-referrer", redirect: "error", signal }), most);
    } finally {
      clearTimeout(late);
    }
  }

  /** @param {Response} response @param {number} most @returns {Promise<Uint8Array<ArrayBuffer> | null>} */
  async #body(response, most) {
    if (response.status === 400) return null;
    if (!response.ok) throw new EngineError(response.status === 429 ? `${this.from} asks to come again later.` : `${this.from} answers ${response.status}.`);
    const parts = [];
    let size = 0;
    const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader();
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      parts.push(part.value);
      if ((size += part.value.length) <= most) continue;
      await reader.cancel();
      throw new EngineError(`${this.from} sends more than ${most} bytes.`);
    }
    const all = new Uint8Array(size);
    let at = 0;
    for (const part of parts) all.set(part, (at += part.length) - part.length);
    return all;
  }
}

/** As an export makes it. @param {Kernel["header"][]} headers */
const digestOf = (headers) => sha256(new TextEncoder().encode(headers.map(({ settings, sha256: hash, panels, parallel_extent }) => `${settings} ${hash} ${panels.map((p) => p.join(":"))} ${parallel_extent}`).join("\n")));

/** @param {any} header @param {string} workload @param {string} tier */
function isHeader(header, workload, tier) {
  const { settings, sha256, panels, parallel_extent: extent } = header ?? {};
  const count = (/** @type {unknown} */ n, /** @type {number} */ most) => Number.isInteger(n) && Number(n) >= 0 && Number(n) <= most;
  const texts = typeof settings === "string" && settings.length > 0 && settings.length <= 200 && /^[0-9a-f]{64}$/.test(sha256);
  const numbers = count(extent, 2 ** 31 - 1) && Array.isArray(panels) && panels.length <= 8 && panels.every((p) => Array.isArray(p) && p.length === 2 && count(p[0], 31) && count(p[1], WIDEST_PANEL));
  return header?.workload === workload && header.tier === tier && texts && numbers;
}

/**
 * Kernels of former visits, where they are still what they were.
 * @param {unknown} stored
 * @param {string} from
 * @returns {Promise<Kernel[]>}
 */
export async function remembered(stored, from) {
  const right = [];
  for (const each of Array.isArray(stored) ? stored : []) {
    const { header, bytes } = each ?? {};
    if (each?.from !== from || !(bytes instanceof Uint8Array) || !isHeader(header, header?.workload, header?.tier)) continue;
    if ((await sha256(/** @type {Uint8Array<ArrayBuffer>} */ (bytes))) === header.sha256) right.push({ header, bytes: /** @type {Uint8Array<ArrayBuffer>} */ (bytes) });
  }
  return right;
}
