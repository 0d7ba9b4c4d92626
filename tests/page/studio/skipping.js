/**
 * Kernels that do their work for a while and skip it from then on, in the engine's own bench:
 * `node skipping.js [--planted] RUN...` prints how many of them got samples without an error.
 */
import { FixtureMemory } from "../../../resources/engine/tuning/fixture.js";
import { Bench } from "../../../resources/engine/tuning/measure.js";
import { add, at, bytesOf, get, header, int, kernel, load, plus, store } from "../wasm.js";

const n = 37;
const policy = { pairs: 4, min_sample_ms: 0.2, min_quanta: 1, warmup_ms: 0.1, early_stop_ratio: 3, max_ms: 4000 };
const a = Float32Array.from({ length: n }, (_, i) => i);
const sum = a.map((v) => 2 * v);
const arg = (role, blob, nbytes = n * 4) => ({ role, dtype: "f32", nbytes, pack: null, blob });
const fixture = {
  workload: "add",
  args: [arg("input", 0), arg("input", 0), arg("output", null), arg("workspace", null, 8)],
  outputs: [{ expected: 1, bound: 2 }],
};
const blobs = [a, sum, new Float32Array(n).fill(1e-6)].map(bytesOf);

const I32_LOAD = [0x28, 2, 0];
const I32_STORE = [0x36, 2, 0];
const [EQUAL, LESS, IF, END] = [0x46, 0x48, [0x04, 0x40], 0x0b];
const BEGIN = 4;

/** Adds two rows, in the runs before `skips` alone: its workspace counts them. @param {number} skips */
export const skipping = (skips) =>
  kernel(4, (i) => [
    ...[...i, ...get(BEGIN), EQUAL, ...IF],
    ...[...get(3), ...add([...get(3), ...I32_LOAD], int(1)), ...I32_STORE, END],
    ...[...get(3), ...I32_LOAD, ...int(skips), LESS, ...IF],
    ...[...store(at(2, i), plus(load(at(0, i)), load(at(1, i)))), END],
  ]);

/** What the bench says of such a kernel. @param {number} skips */
export async function measured(skips) {
  const bench = new Bench({ now: () => performance.now(), quantum_ms: 0.005 });
  bench.setFixture(fixture, blobs);
  return bench.measure({ header: header("add", n), bytes: skipping(skips) }, null, policy);
}

if (process.argv[1] === import.meta.filename) {
  const given = process.argv.slice(2);
  if (given[0] === "--planted") {
    given.shift();
    FixtureMemory.prototype.poisonOutputs = () => {}; // what the last right run wrote is still there
  }
  let accepted = 0;
  for (const skips of given) {
    const { error, samples_ms } = await measured(Number(skips));
    if (!error && samples_ms.length) accepted++;
  }
  console.log(accepted);
}
