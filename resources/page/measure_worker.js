/** The disposable worker that measures: what a hundred kernels leave behind goes with it. */
import { EngineError } from "./errors.js";
import { Turnstile } from "./gate.js";
import { Bench } from "./measure.js";
import { probe } from "./probe.js";
import { rates } from "./rates.js";
import { Sentinel } from "./sentinel.js";
import { serve } from "./serve.js";
import { Team } from "./team.js";
import { timerQuantum } from "./timing.js";

/** @type {Turnstile | null} while a model serves, tuning waits at it */
let turnstile = null;
const now = () => turnstile?.now() ?? performance.now();
const clock = { now, quantum_ms: timerQuantum(now) };
let bench = new Bench(clock);
const sentinel = new Sentinel(now);

/** @param {number} threads */
async function useThreads(threads) {
  if (threads === (bench.team?.threads ?? 1)) return;
  const team = threads > 1 ? await Team.start(threads) : null;
  bench.team?.close();
  bench = new Bench(clock, team);
}

serve(async (call) => {
  if (call.header.type === "gate") {
    turnstile = new Turnstile(call.header.words, () => performance.now());
    return { header: { type: "ok" } };
  }
  turnstile?.enter();
  try {
    return await answer(call);
  } finally {
    turnstile?.leave();
  }
});

/**
 * @param {import("./serve.js").Call} call
 * @returns {Promise<import("./serve.js").Reply>}
 */
async function answer({ header, blobs }) {
  switch (header.type) {
    case "probe":
      return { header: { type: "probed", ...(await probe(header.peak, blobs)) } };
    case "rates":
      return { header: { type: "rated", samples_ms: await rates(/** @type {any} */ (header), blobs, clock) } };
    case "pulse":
      return { header: { type: "pulsed", gflops: await sentinel.rate(blobs[0], header.flops_per_iteration) } };
    case "fixture":
      await useThreads(header.threads ?? 1);
      bench.setFixture({ workload: header.workload, args: header.args, outputs: header.outputs }, blobs);
      return { header: { type: "ok" } };
    case "measure": {
      const challenger = { header: header.challenger, bytes: blobs[0] };
      const incumbent = header.incumbent && { header: header.incumbent, bytes: blobs[1] };
      return { header: { type: "measured", ...(await bench.measure(challenger, incumbent, header.policy)) } };
    }
    default:
      throw new EngineError(`The measuring worker has no answer to "${header.type}".`);
  }
}
