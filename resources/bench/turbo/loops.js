/** Loops of a module and their other bodies: compared on random memory, and timed in turns. */
import { randomBy } from "../../live/images.js";
import { address, fill, whole } from "./random.js";

/** @import { Random } from "./random.js" */
/**
 * @typedef {object} LoopJob a loop of `loop_module.py`
 * @property {number} first
 * @property {number[]} given types of the locals that it reads
 * @property {number[]} results types of the locals that it writes
 * @property {string[]} fused for each variant: "f32" or "f64" with fused multiply-adds, "" without
 */
/** @typedef {{file: string, shared: boolean, wide: boolean, loops: LoopJob[]}} FunctionJob with a memory that is shared, or addressed with 64 bits */
/**
 * @typedef {object} Settings
 * @property {number} seed
 * @property {number} cases random memory images
 * @property {number} rounds of timing; in each, every body is called once
 * @property {number} call_ms what a call lasts; short, so that other programs seldom interrupt it
 * @property {number} warmup_ms
 */
/** @typedef {() => void} Run */

const PAGES = 16;
const MOST_PAGES = 65536;
const GIVEN = 64;
const RESULTS = 32768;
const SLOT = 16;
const I32 = 0x7f;
const I64 = 0x7e;
const V128 = 0x7b;
const ATTEMPTS = 400;
const SPAN = 1 << 17;
/** While timed, what loops read is to stay in the first caches, as blocked kernels see to it. */
const TIMED_SPAN = 1 << 14;
/** Pointers that are timed: how they lie to one another changes what a load costs. */
const DRAWS = 4;
const TRIPS = 64;
const MOST_RUNS = 1 << 20;
/** Of the largest result: by how much a body with fused multiply-adds may differ here. */
const TOLERANCE = 1e-4;

/** One loop's functions and the memory that they run on. */
class Laboratory {
  /** @param {WebAssembly.Instance} instance @param {WebAssembly.Memory} memory @param {LoopJob} loop @param {Random} random */
  constructor(instance, memory, loop, random) {
    const { exports } = instance;
    this.original = /** @type {Run} */ (exports[`o${loop.first}`]);
    this.variants = loop.fused.map((_, n) => /** @type {Run} */ (exports[`v${loop.first}_${n}`]));
    this.loop = loop;
    this.random = random;
    this.view = new DataView(memory.buffer);
    this.words = new Uint32Array(memory.buffer);
    this.image = new Uint32Array(this.words.length);
  }

  /** Locals as they are before. @param {number} step that pointers are multiples of @param {number} span */
  drawLocals(step, span) {
    const view = new DataView(this.image.buffer);
    this.loop.given.forEach((type, n) => {
      const at = GIVEN + SLOT * n;
      if (type === I32) view.setInt32(at, address(this.random, step, span), true);
      else if (type === I64) view.setBigInt64(at, BigInt(address(this.random, step, span)), true);
      else for (let lane = 0; lane < SLOT; lane += 4) view.setFloat32(at + lane, 2 * this.random() - 1, true);
    });
  }

  /** @param {number} trips @param {number} runs @param {boolean} freely without asking the condition */
  setHeader(trips, runs, freely) {
    this.view.setInt32(0, trips, true);
    this.view.setInt32(4, runs, true);
    this.view.setInt32(8, Number(freely), true);
  }

  /** Whether a run on the image ends without a trap. @param {Run} run @param {() => void} header */
  ends(run, header) {
    this.words.set(this.image);
    header();
    try {
      run();
      return true;
    } catch (e) {
      if (e instanceof WebAssembly.RuntimeError) return false;
      throw e;
    }
  }
}

/** @param {Laboratory} lab @param {number} cases */
function prove(lab, cases) {
  const { random, loop } = lab;
  const equal = loop.fused.map(() => true);
  let ended = 0;
  for (let n = 0; n < cases; n++) {
    const plain = n % 3 === 0;
    fill(random, lab.image.buffer, plain);
    lab.drawLocals(plain ? SLOT : whole(random, 1, SLOT), SPAN);
    const trips = whole(random, 1, 40);
    const freely = random() < 0.7;
    const header = () => lab.setHeader(trips, 1, freely);
    const first = lab.ends(lab.original, header);
    ended += Number(first);
    const expected = lab.words.slice();
    lab.variants.forEach((run, v) => {
      const kind = loop.fused[v];
      if (kind && !plain) return;
      const same = lab.ends(run, header) === first;
      equal[v] &&= same && (kind ? close(expected, lab.words, loop, kind) : identical(expected, lab.words));
    });
  }
  return { cases, ended, equal };
}

/**
 * Bit for bit, but for bytes of floats and doubles that are NaN in both: WebAssembly leaves a NaN's
 * payload open, and the two compilers of one engine choose differently.
 * @param {Uint32Array} a
 * @param {Uint32Array} b of the same length
 */
export function identical(a, b) {
  const [x, y] = [new DataView(a.buffer), new DataView(b.buffer)];
  const excused = (/** @type {number} */ at) => x.getUint8(at) === y.getUint8(at) || nanAround(x, y, at);
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i] && ![0, 1, 2, 3].every((byte) => excused(4 * i + byte))) return false;
  return true;
}

/** Whether a byte belongs to a NaN in both, wherever it begins. @param {DataView} x @param {DataView} y @param {number} at */
function nanAround(x, y, at) {
  const within = (/** @type {"getFloat32" | "getFloat64"} */ read, /** @type {number} */ size) => {
    for (let from = Math.max(0, at - size + 1); from <= Math.min(at, x.byteLength - size); from++)
      if (Number.isNaN(x[read](from, true)) && Number.isNaN(y[read](from, true))) return true;
    return false;
  };
  return within("getFloat32", 4) || within("getFloat64", 8);
}

/**
 * All but the vector results bit for bit, these within a tolerance.
 * @param {Uint32Array} a
 * @param {Uint32Array} b
 * @param {LoopJob} loop
 * @param {string} kind of the lanes
 */
function close(a, b, { results }, kind) {
  const [x, y] = [a, b].map(({ buffer }) => (kind === "f32" ? new Float32Array(buffer) : new Float64Array(buffer)));
  const [first, last] = [RESULTS, RESULTS + SLOT * results.length].map((at) => at / x.BYTES_PER_ELEMENT);
  let largest = 1e-30;
  for (let i = first; i < last; i++) if (Number.isFinite(x[i])) largest = Math.max(largest, Math.abs(x[i]));
  for (let i = 0; i < a.length; i++) {
    if (a[i] === b[i]) continue;
    const lane = Math.floor((4 * i) / x.BYTES_PER_ELEMENT);
    const vector = lane >= first && lane < last && results[(4 * i - RESULTS) >> 4] === V128;
    if (!vector || Math.abs(x[lane] - y[lane]) > TOLERANCE * largest || Number.isNaN(x[lane]) !== Number.isNaN(y[lane])) return false;
  }
  return true;
}

/** Milliseconds of a call by contender, or why there are none. @param {Laboratory} lab @param {Settings} settings */
function time(lab, { rounds, call_ms, warmup_ms }) {
  fill(lab.random, lab.image.buffer, true);
  const bodies = [lab.original, ...lab.variants];
  /** @type {number[][]} */
  const samples = bodies.map(() => []);
  let runs = 0;
  for (let draw = 0; draw < DRAWS; draw++) {
    if (!drawn(lab, bodies)) return { samples_ms: {}, error: "no arguments were found that it runs on" };
    if (!runs) for (const body of bodies) warmUp(lab, body, 4, warmup_ms);
    for (runs ||= 4; runs < MOST_RUNS && leastOfThree(lab, runs) < call_ms; ) runs *= 2;
    for (const body of bodies) warmUp(lab, body, runs, draw ? 0 : warmup_ms);
    for (let round = 0; round * DRAWS < rounds; round++)
      for (let turn = 0; turn < bodies.length; turn++) {
        const n = (round + turn) % bodies.length;
        samples[n].push(timed(lab, bodies[n], runs));
      }
  }
  return { samples_ms: Object.fromEntries(samples.map((list, n) => [n ? `v${n - 1}` : "o", list])) };
}

/** @param {Laboratory} lab @param {Run} body @param {number} runs @returns {number} ms */
function timed(lab, body, runs) {
  lab.setHeader(TRIPS, runs, true);
  const start = performance.now();
  body();
  return performance.now() - start;
}

/** A call that another program interrupts says nothing of how many runs fill one. @param {Laboratory} lab @param {number} runs @returns {number} ms */
const leastOfThree = (lab, runs) => Math.min(...[0, 1, 2].map(() => timed(lab, lab.original, runs)));

/** Calls until the engine has surely compiled it for speed. @param {Laboratory} lab @param {Run} body @param {number} runs @param {number} ms */
function warmUp(lab, body, runs, ms) {
  for (let spent = 0, calls = 0; spent < ms || calls < 3; calls++) spent += timed(lab, body, runs);
}

/** Finds locals that no body traps on. @param {Laboratory} lab @param {Run[]} runs */
function drawn(lab, runs) {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    lab.drawLocals(SLOT, TIMED_SPAN);
    if (runs.every((run) => lab.ends(run, () => lab.setHeader(TRIPS, 1, true)))) return true;
  }
  return false;
}

/** @param {FunctionJob} job */
function memoryOf({ shared, wide }) {
  const limits = wide ? { address: "i64", initial: BigInt(PAGES), maximum: BigInt(MOST_PAGES) } : { initial: PAGES, maximum: MOST_PAGES };
  return new WebAssembly.Memory(/** @type {any} */ ({ ...limits, shared }));
}

/**
 * A row for each loop of a function.
 * @param {FunctionJob} job
 * @param {Settings} settings
 * @param {(path: string) => Promise<BufferSource>} fetchBytes
 */
export async function* rows(job, settings, fetchBytes) {
  const memory = memoryOf(job);
  const { instance } = await WebAssembly.instantiate(await fetchBytes(job.file), { e: { m: memory } });
  for (const loop of job.loops) {
    const lab = new Laboratory(instance, memory, loop, randomBy(settings.seed + loop.first));
    const proof = prove(lab, settings.cases);
    yield { file: job.file, first: loop.first, proof, ...time(lab, settings) };
  }
}
