/** Is a kernel right, and how fast is it compared with the incumbent? */
import { Choice } from "../choice.js";
import { compileKernel, linkKernel } from "../kernel.js";
import { worstRatio } from "./compare.js";
import { FixtureMemory } from "./fixture.js";
import { fixtureOf, isAhead, judged, notMeasured, sentence, unlessSkipped } from "./measured.js";
import { Rivals } from "./rivals.js";
import { prime, takeSamples, warmUp } from "./timing.js";

/** @import { Team } from "../team.js" */
/** @import { FixtureHeader } from "./fixture.js" */
/** @import { Check, Kernel, Measured } from "./measured.js" */
/** @import { Clock, MeasurePolicy, Timed } from "./timing.js" */
/**
 * `all` runs it on every thread there is, `run` as `choice` says, `part` so many
 * iterations of its outermost loop on the caller.
 * @typedef {{all: () => void, run: () => void, part: (iterations: number) => void, choice: Choice | null, drop: () => void}} Bound
 */

/** Measures kernels of one workload at a time on its fixture. */
export class Bench {
  /** @type {FixtureMemory | null} */ #fixture = null;
  /** @type {Rivals<Timed & {drop: () => void}, Check>} */ #rivals = new Rivals();

  /**
   * @param {{now: () => number, quantum_ms: number}} clock
   * @param {Team | null} [team] threads that kernels run on; it stays its owner's to close
   */
  constructor(clock, team = null) {
    this.clock = clock;
    this.team = team;
  }

  /** @param {FixtureHeader} header @param {Uint8Array[]} blobs */
  setFixture(header, blobs) {
    this.#rivals.clear();
    this.#fixture = new FixtureMemory(header, blobs, this.team !== null);
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
   * @param {() => void} [checked] is called when the challenger has run once
   * @returns {Promise<Measured>}
   */
  async measure(challenger, incumbent, policy, checked = () => {}) {
    const fixture = fixtureOf(this.#fixture, challenger);
    let result = notMeasured("");
    try {
      const { check, bound, right } = await this.#rivals.challenger(challenger, incumbent, () => this.#check(fixture, challenger, policy));
      checked();
      result = { ...result, ...check };
      if (!right) return result;
      const rival = incumbent && (await this.#rivals.incumbent(incumbent, () => this.#incumbent(fixture, incumbent, policy)));
      const samples = takeSamples(bound, rival, policy, this.clock);
      const timed = { ...result, ...samples };
      return isAhead(samples) ? unlessSkipped(timed, this.#again(fixture, bound)) : timed;
    } catch (e) {
      this.#rivals.retire(null);
      return { ...result, error: sentence(e) };
    }
  }

  /** @param {FixtureMemory} fixture @param {Kernel} kernel @param {MeasurePolicy} policy */
  async #check(fixture, kernel, policy) {
    const { now } = this.clock;
    const start = now();
    const bound = await this.#bind(fixture, kernel);
    const instantiate_ms = now() - start;
    try {
      const begun = prime(bound.part, policy, now);
      fixture.poison();
      bound.all();
      const guard_ok = fixture.intact();
      const ratio = worstRatio(fixture.outputs, (arg) => fixture.output(arg));
      if (!guard_ok) fixture.restore();
      const outputs = policy.digest ? fixture.outputs.map(({ arg }) => fixture.output(arg)) : null;
      const { check, right } = await judged(ratio, guard_ok, instantiate_ms, outputs);
      const run = right ? settled(bound, policy, now) : bound.run;
      return { check, right, bound: { run, batch: 0, begun, drop: bound.drop } };
    } catch (e) {
      if (!fixture.intact()) fixture.restore(); // it may have done so before it trapped
      bound.drop();
      throw e;
    }
  }

  /**
   * How wrong the outputs are of one more run, made as the timed ones were.
   * @param {FixtureMemory} fixture
   * @param {Timed} bound
   */
  #again(fixture, { run }) {
    fixture.poisonOutputs();
    run();
    return worstRatio(fixture.outputs, (arg) => fixture.output(arg));
  }

  /** @param {FixtureMemory} fixture @param {Kernel} kernel @param {MeasurePolicy} policy */
  async #incumbent(fixture, kernel, policy) {
    const bound = await this.#bind(fixture, kernel);
    try {
      const begun = prime(bound.part, policy, this.clock.now);
      return { run: settled(bound, policy, this.clock.now), batch: 0, begun, drop: bound.drop };
    } catch (e) {
      bound.drop();
      throw e;
    }
  }

  /** @param {FixtureMemory} fixture @param {Kernel} kernel @returns {Promise<Bound>} */
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
    if (!team || parallel_extent <= 1) return { all: solo, run: solo, part, choice: null, drop: () => {} };
    const [id] = await team.add(fixture.memory, [module]);
    const all = () => team.run(id, run, pointers, parallel_extent);
    const choice = new Choice(Infinity);
    return { all, run: () => choice.run(solo, all), part, choice, drop: () => team.drop([id]) };
  }
}

/**
 * The kernel, run the way that the engine would choose for it: decided once,
 * and where it is a close thing again when the kernel is warm.
 *
 * @param {Bound} bound
 * @param {MeasurePolicy} policy
 * @param {Clock} now
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
