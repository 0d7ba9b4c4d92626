/**
 * Decides for each call of a nest where it runs, and checks the GPU against the loop.
 *
 * The first call is timed as it is: where moving the bytes alone takes longer, the loop stays.
 * At the next the kernel is tried on made-up memory (alone.js) and runs beside the loop; all results
 * must agree, and the GPU must be faster. After that the GPU runs it, and now and then both. What
 * disagrees or fails is never tried again on this adapter and driver.
 */
import { imagesOf } from "./alone.js";
import { Counters } from "./counters.js";
import { collect, conflict, gather, placesOf, scatter } from "./memory.js";
import { explained } from "./rounding.js";

/** @import { Nest, Plan } from "./plan.js" */
/** @import { Image } from "./alone.js" */
/** @import { Places } from "./memory.js" */
/** Milliseconds of one run. @typedef {{upload: number, dispatch: number, readback: number, total: number}} Price */
/** What the GPU is to run; `check`: beside the loop, `trial`: before it is used. @typedef {{number: number, nest: Nest, places: Places, inputs: Uint8Array[], check: boolean, trial: boolean, images: Image[]}} Job */
/** Outputs of the call, and of each image. @typedef {{outputs: Uint8Array[], tried: Uint8Array[][], price: Price}} Done */
/** The device: its key, and its cost of moving bytes. @typedef {{key: string, floor: (up: number, down: number) => number}} Device */
/** @typedef {"new" | "check" | "on" | "off"} State */
/** @typedef {{state: State, reason: string, text: string, loopMs: number, gpuMs: number, price: Price | null, calls: number}} Status */
/** What is remembered over sessions. @typedef {{get: (key: string) => string | null | undefined, set: (key: string, reason: string) => void}} Memory */

export const [RUN, DONE, CHECK] = [0, 1, 2];
/** One call in so many is checked again. */
const CHECK_EVERY = 32;
/** Of made-up memory that a kernel has to pass on each adapter. */
const IMAGES = 2;
/** @type {{images: Image[], wrong: string}} */
const NOTHING = { images: [], wrong: "" };
const EPSILON = 2 ** -22;

export class Guard {
  counters = new Counters();
  /** @type {Status[]} */ status;
  /** @type {{job: Job | null, outputs: Uint8Array[] | null, start: number, number: number}[]} calls that go on behind their loop */ #open = [];
  /** @type {Set<string>} kernels that passed made-up memory, by fingerprint and device */ #passed = new Set();
  /** @type {Float32Array} sums of the last call */ #results = new Float32Array(0);

  /**
   * @param {Plan} plan
   * @param {() => ArrayBufferLike} memory
   * @param {{now?: () => number, random?: () => number, remembered?: Memory, always?: boolean}} [options] `always` runs on the GPU whatever it costs
   */
  constructor(plan, memory, { now = () => performance.now(), random = Math.random, remembered = new Map(), always = false } = {}) {
    this.plan = plan;
    this.memory = memory;
    this.now = now;
    this.random = random;
    this.remembered = remembered;
    this.always = always;
    /** @type {Device | null} */ this.device = null;
    /** Why nothing can run on the GPU just now. */
    this.unable = "no-device";
    this.status = plan.nests.map(() => ({ state: "new", reason: "", text: "", loopMs: Infinity, gpuMs: Infinity, price: null, calls: 0 }));
  }

  /** A device is there. @param {Device} device */
  opened(device) {
    this.device = device;
    this.unable = "";
    this.plan.nests.forEach((nest, i) => {
      const reason = this.remembered.get(this.#key(nest));
      const status = this.status[i];
      if (reason) Object.assign(status, { state: "off", reason, text: `${reason}, remembered` });
      else if (status.state === "on") status.state = "check"; // another device is checked anew
    });
  }

  /** The device is gone. @param {string} reason */
  closed(reason) {
    this.device = null;
    this.unable = reason;
  }

  /**
   * Before a nest.
   * @param {number} number
   * @param {number[]} args
   * @returns {{mode: number, job: Job | null}} without a job the mode is the answer
   */
  enter(number, args) {
    const [nest, status] = [this.plan.nests[number], this.status[number]];
    status.calls++;
    const stays = (/** @type {string} */ reason) => {
      this.counters.fell(reason);
      return { mode: RUN, job: null };
    };
    if (status.state === "off") return stays(status.reason);
    if (this.unable) return stays(this.unable);
    const memory = this.memory();
    const places = placesOf(nest, args);
    const wrong = conflict(nest, places, memory.byteLength);
    if (wrong) return stays(wrong);
    if (status.state === "new" && !this.always) {
      this.#open.push({ job: null, outputs: null, start: this.now(), number });
      this.counters.fell("first-call");
      return { mode: CHECK, job: null };
    }
    const trial = status.state !== "on";
    const check = trial || this.random() * CHECK_EVERY < 1;
    const { images, wrong: other } = this.#passed.has(this.#key(nest)) ? NOTHING : imagesOf(nest, IMAGES, this.random);
    if (other) {
      this.#off(nest, "plan", other);
      return stays("plan");
    }
    const inputs = gather(nest, places, memory);
    // What is checked is looked at again when the loop has run, which may write over it.
    return { mode: RUN, job: { number, nest, places, inputs: check ? inputs.map((bytes) => bytes.slice()) : inputs, check, trial, images } };
  }

  /** The GPU has run a job: its answer for the nest. @param {Job} job @param {Done} done */
  ran(job, { outputs, tried, price }) {
    const { nest, places, number, check } = job;
    const status = this.status[number];
    const wrong = job.images
      .flatMap(({ inputs, expected }, i) => nest.outputs.map((_, j) => difference(floats(tried[i][j]), expected[j], nest, (at, ours, theirs) => explained(nest, j, at, inputs, ours, theirs, true))))
      .find(Boolean);
    if (wrong) return this.#diverged(nest, `on made-up memory ${wrong}`);
    this.#passed.add(this.#key(nest));
    status.gpuMs = Math.min(status.gpuMs, price.total);
    status.price = price;
    if (check) {
      this.#open.push({ job, outputs, start: this.now(), number });
      return CHECK;
    }
    const sums = nest.outputs.flatMap(({ result }, i) => (result ? [...floats(outputs[i])] : []));
    this.#results = Float32Array.from(sums);
    nest.outputs.forEach((output, i) => output.result || scatter(output, places.outputs[i], outputs[i], this.memory()));
    this.counters.success++;
    return DONE;
  }

  /** The GPU could not run a job. @param {Job} job @param {any} error */
  failed({ number, nest }, error) {
    const lost = error?.code === "gpu-lost" || error?.code === "gpu-unavailable";
    if (lost) this.closed("device-lost");
    else this.#off(nest, error?.code || "gpu-error", error?.message ?? String(error));
    this.counters.fell(lost ? "device-lost" : this.status[number].reason);
    return RUN;
  }

  /** Behind a nest that was asked to call again. @param {number} number @param {number[]} results of the loop, those that stay in locals */
  leave(number, results) {
    const end = this.now();
    const open = this.#open.pop();
    if (!open || open.number !== number) throw new Error("The calls around a nest do not match.");
    const status = this.status[number];
    status.loopMs = Math.min(status.loopMs, end - open.start);
    if (open.job && open.outputs) this.#compare(open.job, open.outputs, results);
    else this.#first(number);
  }

  /** Sum `i` of the last nest that ran on the GPU. @param {number} i */
  result(i) {
    return this.#results[i];
  }

  /** @param {number} number */
  #first(number) {
    const { inputs, outputs } = this.plan.nests[number];
    const up = inputs.reduce((a, b) => a + b, 0);
    const down = outputs.reduce((sum, { dims }) => sum + dims.reduce((p, [, n]) => p * n, 4), 0);
    const floor = this.device?.floor(up, down) ?? 0;
    const status = this.status[number];
    if (status.loopMs < floor) this.#stays(number, floor);
    else status.state = "check";
  }

  /** @param {Job} job @param {Uint8Array[]} outputs @param {number[]} results */
  #compare({ number, nest, places, inputs }, outputs, results) {
    const status = this.status[number];
    let seen = 0;
    for (const [i, output] of nest.outputs.entries()) {
      const ours = floats(outputs[i]);
      const theirs = output.result ? Float32Array.from(results.slice(seen, (seen += ours.length))) : collect(output, places.outputs[i], this.memory());
      const wrong = difference(ours, theirs, nest, (at, a, b) => explained(nest, i, at, inputs, a, b, false));
      if (wrong) return void this.#diverged(nest, wrong);
    }
    this.counters.fell("check");
    if (!this.always && status.gpuMs >= status.loopMs) this.#stays(number, status.gpuMs);
    else status.state = "on";
  }

  /** @param {Nest} nest @param {string} text */
  #diverged(nest, text) {
    this.#off(nest, "numerical-divergence", text);
    this.counters.fell("numerical-divergence");
    return RUN;
  }

  /** A loop that is cheaper where it is: this is told, and not tried again. @param {number} number @param {number} gpuMs */
  #stays(number, gpuMs) {
    const status = this.status[number];
    const what = status.price ? "the GPU with its transfers takes" : "transfers alone cost";
    const text = `${what} ${gpuMs.toFixed(3)} ms, the loop ${status.loopMs.toFixed(3)} ms: stays`;
    Object.assign(status, { state: "off", reason: "price", text });
  }

  /** Never again on this adapter and driver. @param {Nest} nest @param {string} reason @param {string} text */
  #off(nest, reason, text) {
    if (this.device) this.remembered.set(this.#key(nest), reason);
    this.plan.nests.forEach(({ fingerprint }, i) => {
      if (fingerprint === nest.fingerprint) Object.assign(this.status[i], { state: "off", reason, text });
    });
  }

  /** @param {Nest} nest */
  #key(nest) {
    return `${nest.fingerprint}|${this.device?.key ?? ""}`;
  }
}

/** @param {Uint8Array} bytes */
const floats = (bytes) => new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);

/**
 * Where results differ by more than rounding in another order explains; empty where they do not.
 * Most are compared by the size of results alone; those that are left by the terms that they are sums of.
 * @param {Float32Array} ours @param {Float32Array} theirs
 * @param {{terms: number, rounding?: number}} nest terms of each sum, and the error of each
 * @param {(element: number, ours: number, theirs: number) => boolean} explains
 */
export function difference(ours, theirs, { terms, rounding = 0 }, explains) {
  let squares = 0;
  for (const x of theirs) if (Number.isFinite(x)) squares += x * x;
  const scale = Math.sqrt(squares / theirs.length);
  const share = EPSILON * (4 + 4 * Math.sqrt(terms)) + 4 * rounding;
  for (let i = 0; i < theirs.length; i++) {
    const [a, b] = [ours[i], theirs[i]];
    if (Object.is(a, b) || a === b || (Number.isNaN(a) && Number.isNaN(b))) continue;
    if (!(Math.abs(a - b) <= share * (Math.abs(b) + scale) + 1e-37) && !explains(i, a, b)) return `element ${i} is ${a}, the loop says ${b}`;
  }
  return "";
}
