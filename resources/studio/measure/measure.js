/** Is a kernel right, and how fast is it beside the incumbent? */
import { Choice } from "../../engine/choice.js";
import { errorRatio } from "./compare.js";
import { EngineError, errorFields } from "../../engine/errors.js";
import { FixtureMemory } from "./fixture.js";
import { compileKernel, linkKernel } from "../../engine/kernel.js";
import { prime, takeSamples, warmUp } from "./timing.js";

/** @typedef {import("../../types/engine.js").KernelHeader} KernelHeader */
/** @typedef {import("./timing.js").MeasurePolicy} MeasurePolicy */
/** @typedef {{header: KernelHeader, bytes: Uint8Array<ArrayBuffer>}} Kernel */
/**
 * `all` runs it on every thread there is, `run` as `choice` says, `part` so many
 * iterations of its outermost loop on the caller.
 * @typedef {{all: () => void, run: () => void, part: (iterations: number) => void, choice: Choice | null, id: number}} Bound
 */
/** @typedef {{guard_ok: boolean, error_ratio: number | "inf", instantiate_ms: number, digest: string}} Check */
/**
 * A challenger that may be asked for again; `timed` is null where it is wrong.
 * @typedef {{sha256: string, id: number, check: Check, timed: import("./timing.js").Timed | null}} Challenger
 */
/**
 * Fields of the reply `measured`; an infinite error ratio travels as "inf".
 * @typedef {object} Measured
 * @property {number[]} samples_ms
 * @property {number[]} incumbent_ms
 * @property {number} batch
 * @property {number | "inf"} error_ratio
 * @property {boolean} guard_ok
 * @property {boolean} stopped_early
 * @property {number} instantiate_ms
 * @property {string} digest SHA-256 of the outputs, where the policy asks for it
 * @property {string} error
 */

/**
 * A measurement without samples.
 * @param {string} error
 * @returns {Measured}
 */
export function notMeasured(error) {
  return {
    samples_ms: [],
    incumbent_ms: [],
    batch: 0,
    error_ratio: "inf",
    guard_ok: false,
    stopped_early: false,
    instantiate_ms: 0,
    digest: "",
    error,
  };
}

/** Measures kernels of one workload at a time on its fixture. */
export class Bench {
  /** @type {FixtureMemory | null} */ #fixture = null;
  /** @type {Map<string, import("./timing.js").Timed>} by sha256 */ #incumbents = new Map();
  /** @type {Challenger | null} the last one */ #challenger = null;
  /** @type {number[]} the team's kernels of the incumbents */ #linked = [];

  /**
   * @param {{now: () => number, quantum_ms: number}} clock
   * @param {import("../../engine/team.js").Team | null} [team] threads that kernels run on; it stays its owner's to close
   */
  constructor(clock, team = null) {
    this.clock = clock;
    this.team = team;
  }

  /**
   * @param {import("./fixture.js").FixtureHeader} header
   * @param {Uint8Array[]} blobs
   */
  setFixture(header, blobs) {
    this.#retire(null);
    this.#fixture = new FixtureMemory(header, blobs, this.team !== null);
    this.#incumbents.clear();
    this.team?.drop(this.#linked.splice(0));
  }

  /**
   * A challenger that cannot be compiled, traps, is wrong or writes where it
   * must not is an ordinary outcome and gets no samples. The challenger of the
   * measurement before is still bound, checked and warm: more samples of it cost
   * no more than their time.
   *
   * @param {Kernel} challenger
   * @param {Kernel | null} incumbent
   * @param {MeasurePolicy} policy
   * @returns {Promise<Measured>}
   */
  async measure(challenger, incumbent, policy) {
    const fixture = this.#fixture;
    if (fixture?.workload !== challenger.header.workload)
      throw new EngineError(`The page has no fixture of ${challenger.header.workload}.`, "Send the fixture first.");
    let result = notMeasured("");
    try {
      const sha256 = challenger.header.sha256 ?? "";
      if (!sha256 || sha256 !== this.#challenger?.sha256) {
        this.#retire(incumbent);
        this.#challenger = await this.#check(fixture, challenger, policy);
      }
      const { check, timed } = /** @type {Challenger} */ (this.#challenger);
      result = { ...result, ...check };
      if (!timed) return result;
      const rival = incumbent && (await this.#incumbent(fixture, incumbent, policy));
      return { ...result, ...takeSamples(timed, rival, policy, this.clock) };
    } catch (e) {
      this.#retire(null);
      const { error, hint } = errorFields(e);
      return { ...result, error: `${error} ${hint}`.trim() };
    }
  }

  /**
   * The last challenger makes room; if it is the incumbent now, it stays warm.
   * @param {Kernel | null} incumbent
   */
  #retire(incumbent) {
    const last = this.#challenger;
    this.#challenger = null;
    if (!last) return;
    if (last.timed && last.sha256 && last.sha256 === incumbent?.header.sha256) {
      this.#incumbents.set(last.sha256, last.timed);
      if (last.id) this.#linked.push(last.id);
    } else if (last.id) this.team?.drop([last.id]);
  }

  /**
   * @param {FixtureMemory} fixture
   * @param {Kernel} kernel
   * @param {MeasurePolicy} policy
   * @returns {Promise<Challenger>}
   */
  async #check(fixture, kernel, policy) {
    const start = this.clock.now();
    const bound = await this.#bind(fixture, kernel);
    const { id } = bound;
    const instantiate_ms = this.clock.now() - start;
    try {
      const begun = prime(bound.part, policy, this.clock.now);
      fixture.poison();
      bound.all();
      const guard_ok = fixture.intact();
      const ratio = worstError(fixture);
      const right = ratio <= 1 && guard_ok;
      if (!guard_ok) fixture.restore();
      const digest = policy.digest ? await digestOf(fixture) : "";
      return {
        sha256: kernel.header.sha256 ?? "",
        id,
        check: { guard_ok, error_ratio: ratio === Infinity ? "inf" : ratio, instantiate_ms, digest },
        timed: right ? { run: settled(bound, policy, this.clock.now), batch: 0, begun } : null,
      };
    } catch (e) {
      if (!fixture.intact()) fixture.restore(); // it may have done so before it trapped
      if (id) this.team?.drop([id]);
      throw e;
    }
  }

  /**
   * @param {FixtureMemory} fixture
   * @param {Kernel} kernel
   * @param {MeasurePolicy} policy
   */
  async #incumbent(fixture, kernel, policy) {
    const key = kernel.header.sha256 ?? "";
    const known = this.#incumbents.get(key);
    if (known) return known;
    const bound = await this.#bind(fixture, kernel);
    if (bound.id) this.#linked.push(bound.id);
    const begun = prime(bound.part, policy, this.clock.now);
    const made = { run: settled(bound, policy, this.clock.now), batch: 0, begun };
    if (key) this.#incumbents.set(key, made);
    return made;
  }

  /**
   * @param {FixtureMemory} fixture
   * @param {Kernel} kernel
   * @returns {Promise<Bound>}
   */
  async #bind(fixture, { header, bytes }) {
    const { parallel_extent, panels, workload } = header;
    const { team } = this;
    const pointers = fixture.pointers(panels);
    const module = await compileKernel(bytes, workload, team !== null);
    const run = await linkKernel(module, fixture.memory, pointers.length, workload);
    const solo = () => run(...pointers, 0, parallel_extent);
    const part = (/** @type {number} */ iterations) => {
      for (; iterations >= parallel_extent; iterations -= parallel_extent) solo();
      if (iterations) run(...pointers, 0, iterations);
    };
    if (!team || parallel_extent <= 1) return { all: solo, run: solo, part, choice: null, id: 0 };
    const [id] = await team.add(fixture.memory, [module]);
    const all = () => team.run(id, run, pointers, parallel_extent);
    const choice = new Choice(Infinity);
    return { all, run: () => choice.run(solo, all), part, choice, id };
  }
}

/**
 * The kernel, run the way that the engine would choose for it: decided once,
 * and where it is a close thing again when the kernel is warm.
 *
 * @param {Bound} bound
 * @param {MeasurePolicy} policy
 * @param {import("./timing.js").Clock} now
 */
function settled({ run, choice }, policy, now) {
  if (!choice) return run;
  while (!choice.settled) run();
  if (!choice.sure) {
    warmUp(run, policy, policy.min_sample_ms, now);
    choice.reopen();
    while (!choice.settled) run();
  }
  return run;
}

/** @param {FixtureMemory} fixture */
function worstError(fixture) {
  const ratios = fixture.outputs.map(({ arg, expected, bound }) => {
    const bounds = new Float32Array(bound.buffer, bound.byteOffset, bound.byteLength / 4);
    return errorRatio(fixture.args[arg].dtype, fixture.output(arg), expected, bounds);
  });
  return Math.max(0, ...ratios);
}

/** @param {FixtureMemory} fixture */
async function digestOf(fixture) {
  const outputs = new Blob(fixture.outputs.map(({ arg }) => fixture.output(arg).slice()));
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", await outputs.arrayBuffer()));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
