import assert from "node:assert/strict";
import { test } from "node:test";
import { errorRatio, fromHalf } from "../../../resources/engine/tuning/compare.js";
import { FixtureMemory } from "../../../resources/engine/tuning/fixture.js";
import { Bench } from "../../../resources/engine/tuning/measure.js";
import { prime, takeSamples, timerQuantum, warmUp } from "../../../resources/engine/tuning/timing.js";
import { add, addKernel, at, bytesOf, doubleKernel, f32, get, header, int, kernel, load, plus, rowAddKernel, store, storeByte, trap } from "../wasm.js";
import { OwnClock } from "../clock.js";
import { measured } from "./skipping.js";

const policy = { pairs: 6, min_sample_ms: 5, min_quanta: 20, warmup_ms: 30, early_stop_ratio: 3, max_ms: 4000 };
const quick = { ...policy, pairs: 2, min_sample_ms: 0.01, min_quanta: 1, warmup_ms: 0.01 };

/** A clock that stands still but for the work of fake kernels. */
function fakeClock(quantum_ms = 0.005) {
  let t = 0;
  const log = [];
  const work = (name, ms) => () => {
    log.push(name);
    t += typeof ms === "function" ? ms(t) : ms;
  };
  return { now: () => Math.floor(t / quantum_ms) * quantum_ms, quantum_ms, work, log };
}
/** A clock that moves when it is looked at: real kernels cost what a look costs. */
const ticking = () => ({ now: new OwnClock(0.02).now, quantum_ms: 0.001 });
const cold = (run) => ({ run, batch: 0 });

const runsOf = (log) => log.filter((name, i) => name !== log[i - 1]).join("");

test("samples are interleaved ABBA", () => {
  const clock = fakeClock();
  const { samples_ms, incumbent_ms, stopped_early } = takeSamples(cold(clock.work("C", 6)), cold(clock.work("I", 7)), policy, clock);
  assert.equal(clock.log.slice(-12).join(""), "CIICCIICCIIC");
  assert.equal(samples_ms.length, 6);
  assert.equal(incumbent_ms.length, 6);
  assert.ok(samples_ms.every((ms) => Math.abs(ms - 6) < 0.01));
  assert.ok(incumbent_ms.every((ms) => Math.abs(ms - 7) < 0.01));
  assert.equal(stopped_early, false);
});

test("a sample lasts at least min_sample_ms and min_quanta quanta", () => {
  const fine = fakeClock();
  const fineBatch = takeSamples(cold(fine.work("C", 0.1)), null, policy, fine).batch;
  assert.ok(fineBatch >= 50 && fineBatch <= 52, `a batch of ${fineBatch}`);
  const coarse = fakeClock(1);
  const { batch, samples_ms } = takeSamples(cold(coarse.work("C", 0.1)), null, policy, coarse);
  assert.ok(batch >= 150 && batch <= 250, `a batch of ${batch}`);
  assert.ok(samples_ms.every((ms) => Math.abs(ms - 0.1) < 0.02));
});

test("the challenger is given up after two samples over the early-stop ratio", () => {
  const clock = fakeClock();
  const { samples_ms, incumbent_ms, stopped_early } = takeSamples(cold(clock.work("C", 31)), cold(clock.work("I", 10)), policy, clock);
  assert.equal(stopped_early, true);
  assert.equal(samples_ms.length, 2);
  assert.equal(incumbent_ms.length, 2);
  const other = fakeClock();
  assert.equal(takeSamples(cold(other.work("C", 29)), cold(other.work("I", 10)), policy, other).stopped_early, false);
});

test("max_ms bounds a slow pair, but one pair is always taken", () => {
  const clock = fakeClock();
  const { samples_ms, incumbent_ms } = takeSamples(cold(clock.work("C", 900)), cold(clock.work("I", 900)), policy, clock);
  assert.ok(samples_ms.length >= 1 && samples_ms.length < policy.pairs);
  assert.equal(incumbent_ms.length, samples_ms.length);
  assert.ok(clock.now() < policy.max_ms + 4 * 900);
});

test("a sample takes time even when warming up met an interruption that outlasts max_ms", () => {
  const clock = fakeClock();
  let runs = 0;
  const interrupted = () => (runs++ ? 0.0001 : policy.max_ms);
  const { samples_ms } = takeSamples(cold(clock.work("C", interrupted)), null, policy, clock);
  assert.ok(clock.now() >= policy.max_ms);
  assert.ok(samples_ms.length > 0 && samples_ms.every((ms) => ms > 0), String(samples_ms));
});

test("warming up outlasts the steady baseline tier", () => {
  const clock = fakeClock();
  const tiersUp = (t) => (t < 9 ? 1 : 0.25);
  assert.equal(warmUp(clock.work("C", tiersUp), policy, 5, clock.now), 20);
});

test("priming runs parts until they have become faster, and counts as warming up", () => {
  const clock = fakeClock();
  const parts = [];
  const part = (iterations) => (parts.push(iterations), clock.work("C", (t) => iterations * (t < 4 ? 1 : 0.25))());
  const begun = prime(part, policy, clock.now);
  assert.ok(clock.now() >= policy.warmup_ms / 3 && clock.now() < policy.warmup_ms / 2, `${clock.now()} ms`);
  assert.deepEqual(begun, { start: 0, calls: parts.length });
  assert.equal(warmUp(clock.work("C", 0.25), policy, 5, clock.now, begun), 20);
});

test("priming lasts all of warmup_ms when parts never become faster, one at least", () => {
  const clock = fakeClock();
  prime((iterations) => clock.work("C", iterations)(), policy, clock.now);
  assert.ok(clock.now() >= policy.warmup_ms && clock.now() < policy.warmup_ms + 2);
  const parts = [];
  prime((iterations) => parts.push(iterations), { ...policy, warmup_ms: 0 }, clock.now);
  assert.deepEqual(parts, [1]);
});

test("short parts grow until they can be timed", () => {
  const clock = fakeClock();
  const parts = [];
  prime((iterations) => (parts.push(iterations), clock.work("C", iterations * 0.01)()), policy, clock.now);
  assert.deepEqual(parts.slice(0, 6), [1, 2, 4, 8, 16, 32]);
  assert.equal(Math.max(...parts), 32);
});

test("warming up ends after warmup_ms when times never agree", () => {
  const clock = fakeClock();
  let n = 0;
  warmUp(clock.work("C", () => (n++ % 2 ? 9 : 3)), policy, 5, clock.now);
  assert.ok(clock.now() >= policy.warmup_ms && clock.now() < policy.warmup_ms + 20);
});

test("the timer quantum is the clock's smallest step", () => {
  let calls = 0;
  const quantum = timerQuantum(() => Math.floor(calls++ / 7) * 0.1);
  assert.ok(Math.abs(quantum - 0.1) < 1e-9);
});

test("error ratio: largest difference over its bound", () => {
  const bound = Float32Array.of(0.5, 0.5, 0.5);
  assert.equal(errorRatio("f32", f32(1, 2, 3), f32(1, 2.25, 3.125), bound), 0.5);
  assert.equal(errorRatio("f32", f32(1, 2, 3), f32(1, 2, 3), Float32Array.of(0, 0, 0)), 0);
  assert.equal(errorRatio("f32", f32(1, 2, 4), f32(1, 2, 3), Float32Array.of(0, 0, 0)), Infinity);
});

test("error ratio: NaN and infinity", () => {
  const bound = Float32Array.of(1, 1);
  const big = Infinity;
  assert.equal(errorRatio("f32", f32(NaN, 1), f32(0, 1), bound), Infinity);
  assert.equal(errorRatio("f32", f32(NaN, 1), f32(NaN, 1), bound), 0);
  assert.equal(errorRatio("f32", f32(0, 1), f32(NaN, 1), bound), Infinity);
  assert.equal(errorRatio("f32", f32(big, -big), f32(big, -big), bound), 0);
  assert.equal(errorRatio("f32", f32(big, 1), f32(-big, 1), bound), Infinity);
  assert.equal(errorRatio("f32", f32(NaN, 1.5), f32(0, 1), bound), Infinity, "a later finite ratio does not hide it");
});

test("error ratio: integers and bool are compared in their own type", () => {
  const one = Float32Array.of(1, 1);
  const zero = Float32Array.of(0, 0);
  const big = 2n ** 60n;
  assert.equal(errorRatio("i64", bytesOf(BigInt64Array.of(big + 1n, 5n)), bytesOf(BigInt64Array.of(big, 5n)), zero), Infinity);
  assert.equal(errorRatio("i64", bytesOf(BigInt64Array.of(big, -5n)), bytesOf(BigInt64Array.of(big, -5n)), zero), 0);
  assert.equal(errorRatio("i32", bytesOf(Int32Array.of(-3, 5)), bytesOf(Int32Array.of(-5, 5)), one), 2);
  assert.equal(errorRatio("i8", Uint8Array.of(255, 0), Uint8Array.of(1, 0), one), 2);
  assert.equal(errorRatio("u8", Uint8Array.of(255, 0), Uint8Array.of(1, 0), one), 254);
  assert.equal(errorRatio("bool", Uint8Array.of(1, 0), Uint8Array.of(1, 1), zero), Infinity);
  assert.throws(() => errorRatio("f8", Uint8Array.of(1, 0), Uint8Array.of(1, 0), one), /unknown dtype f8/);
  assert.throws(() => errorRatio("f32", f32(1), f32(1, 2), one), /2 values and 2 bounds for 1 outputs/);
});

test("error ratio: f16 outputs have an f32 reference", () => {
  assert.deepEqual([0x3c00, 0xc000, 0x0001, 0x8000, 0x7bff, 0x7c00, 0xfc00].map(fromHalf), [1, -2, 2 ** -24, -0, 65504, Infinity, -Infinity]);
  assert.ok(Number.isNaN(fromHalf(0x7e00)));
  const got = bytesOf(Uint16Array.of(0x3c00, 0x4000));
  assert.equal(errorRatio("f16", got, f32(1, 2.5), Float32Array.of(1, 0.25)), 2);
});

const n = 37;
const a = Float32Array.from({ length: n }, (_, i) => i);
const b = Float32Array.from({ length: n }, (_, i) => 100 + i * i);
const sum = a.map((v, i) => v + b[i]);
const arg = (role, blob) => ({ role, dtype: "f32", nbytes: n * 4, pack: null, blob });
const fixture = { workload: "add", args: [arg("input", 0), arg("input", 1), arg("output", null)], outputs: [{ expected: 2, bound: 3 }] };
const blobs = [a, b, sum, new Float32Array(n).fill(1e-6)].map(bytesOf);

async function measure(bytes, incumbent = null, options = quick) {
  const bench = new Bench(ticking());
  bench.setFixture(fixture, blobs);
  const rival = incumbent && { header: { ...header("add", n), sha256: "r" }, bytes: incumbent };
  return bench.measure({ header: header("add", n), bytes }, rival, options);
}

test("a right kernel is timed beside the incumbent", async () => {
  const result = await measure(addKernel, doubleKernel);
  assert.equal(result.error, "");
  assert.equal(result.error_ratio, 0);
  assert.equal(result.guard_ok, true);
  assert.equal(result.incumbent_ms.length, result.samples_ms.length);
  assert.ok(result.batch >= 1 && result.samples_ms.every((ms) => ms > 0));
});

test("without an incumbent there are only the challenger's samples", async () => {
  const { samples_ms, incumbent_ms } = await measure(addKernel);
  assert.equal(samples_ms.length, 2);
  assert.deepEqual(incumbent_ms, []);
});

test("a wrong kernel has an error ratio over 1 and no samples", async () => {
  const { error_ratio, guard_ok, samples_ms } = await measure(doubleKernel);
  assert.ok(error_ratio > 1);
  assert.equal(guard_ok, true);
  assert.deepEqual(samples_ms, []);
});

test("an output that is not written is not taken for right", async () => {
  const skipsLast = kernel(3, (i) => store(at(2, div37(i)), plus(load(at(0, div37(i))), load(at(1, div37(i))))));
  function div37(i) {
    return [...i, ...int(n - 1), 0x70]; // i % (n - 1): the last element is never reached
  }
  assert.equal((await measure(skipsLast)).error_ratio, "inf");
});

const writes = (target) => kernel(3, (i) => [...store(at(2, i), plus(load(at(0, i)), load(at(1, i)))), ...storeByte(target, int(7))]);
for (const [name, target] of [
  ["behind its output", add(get(2), int(n * 4))],
  ["before its output", add(get(2), int(-1))],
  ["into an input", get(0)],
  ["far below", int(4)],
]) {
  test(`a kernel that writes ${name} breaks the guard`, async () => {
    const { guard_ok, samples_ms } = await measure(writes(target));
    assert.equal(guard_ok, false);
    assert.deepEqual(samples_ms, []);
  });
}

test("traps, foreign imports and broken bytes are failed candidates, not exceptions", async () => {
  assert.match((await measure(kernel(3, () => trap))).error, /RuntimeError/);
  assert.match((await measure(kernel(3, () => [], { imports: [["env", "memory"], ["env", "f"]] }))).error, /imports env.memory, env.f/);
  const broken = await measure(Uint8Array.of(0, 1));
  assert.match(broken.error, /not valid here/);
  assert.equal(broken.error_ratio, "inf");
});

test("what a wrong kernel did to inputs and guards is made good for the next one", async () => {
  const bench = new Bench(ticking());
  bench.setFixture(fixture, blobs);
  const ask = (bytes, policy = quick) => bench.measure({ header: header("add", n), bytes }, null, policy);
  const thenTraps = kernel(3, (i) => [...storeByte(get(0), int(7)), ...trap, ...store(at(2, i), load(at(0, i)))]);
  for (const broken of [writes(get(0)), writes(add(get(2), int(n * 4))), thenTraps]) {
    assert.equal((await ask(broken)).guard_ok, false);
    const { guard_ok, error_ratio } = await ask(addKernel);
    assert.deepEqual([guard_ok, error_ratio], [true, 0]);
  }
  const digests = [addKernel, addKernel, doubleKernel].map((bytes) => ask(bytes, { ...quick, digest: true }).then((r) => r.digest));
  const [one, same, other] = [await digests[0], await digests[1], await digests[2]];
  assert.match(one, /^[0-9a-f]{64}$/);
  assert.equal(one, same);
  assert.notEqual(one, other);
  assert.equal((await ask(addKernel)).digest, "");
});

test("a kernel that skips its work in a timed run is refused, one that never does is not", async () => {
  for (const skips of [1, 2, 7, 30]) {
    const { error, error_ratio } = await measured(skips);
    assert.equal(error_ratio, 0);
    assert.match(error, /timed runs left the outputs unwritten/);
  }
  const honest = await measured(2 ** 30);
  assert.deepEqual([honest.error, honest.samples_ms.length], ["", 4]);
});

test("a kernel without its fixture is refused", async () => {
  const bench = new Bench(ticking());
  await assert.rejects(bench.measure({ header: header("add", n), bytes: addKernel }, null, quick), /no fixture of add/);
});

test("a challenger in panels meets an incumbent in rows or in other panels", async () => {
  const [K, N] = [6, 21];
  const x = Float32Array.from({ length: K }, (_, i) => 1000 * i);
  const w = Float32Array.from({ length: K * N }, (_, i) => i);
  const y = w.map((v, i) => v + x[Math.floor(i / N)]);
  const bench = new Bench(ticking());
  const args = [
    { role: "input", dtype: "f32", nbytes: K * 4, pack: null, blob: 0 },
    { role: "input", dtype: "f32", nbytes: 32 * K * 4, pack: [K, N], blob: 1 },
    { role: "output", dtype: "f32", nbytes: K * N * 4, pack: null, blob: null },
  ];
  bench.setFixture({ workload: "rowadd", args, outputs: [{ expected: 2, bound: 3 }] }, [x, w, y, new Float32Array(K * N)].map(bytesOf));
  const variant = (width) => ({ header: { ...header("rowadd", K * N, width ? [[1, width]] : []), sha256: `${width}` }, bytes: rowAddKernel(K, N, width) });
  for (const [challenger, incumbent] of [[8, 0], [4, 8], [16, 4], [8, 16], [0, 8]]) {
    const result = await bench.measure(variant(challenger), variant(incumbent), quick);
    assert.deepEqual([result.error, result.error_ratio, result.guard_ok], ["", 0, true]);
    assert.equal(result.incumbent_ms.length, result.samples_ms.length);
  }
  const misled = await bench.measure({ ...variant(8), bytes: variant(4).bytes }, null, quick);
  assert.ok(misled.error_ratio === "inf" || misled.error_ratio > 1);
});

test("fixture memory grows for large arguments and keeps them aligned", () => {
  const big = { role: "input", dtype: "u8", nbytes: 100_000, pack: null, blob: 0 };
  const memory = new FixtureMemory({ workload: "copy", args: [big, { ...big, role: "output", blob: null }], outputs: [{ expected: 0, bound: 0 }] }, [new Uint8Array(100_000).fill(3)]);
  const pointers = memory.pointers([]);
  assert.ok(pointers.every((p) => p % 64 === 0));
  assert.ok(pointers[1] - pointers[0] >= 100_064);
  memory.poison();
  assert.ok(memory.output(1).every((v) => v === 0xff));
  assert.equal(memory.intact(), true);
  assert.throws(() => memory.pointers([[0, 4]]), /no packable weight/);
});

test("an incumbent that is warm already is not warmed up again", () => {
  const clock = fakeClock();
  const incumbent = cold(clock.work("I", 7));
  takeSamples(cold(clock.work("C", 6)), incumbent, policy, clock);
  assert.equal(incumbent.batch, 1);
  clock.log.length = 0;
  takeSamples(cold(clock.work("C", 6)), incumbent, policy, clock);
  assert.equal(clock.log.filter((name) => name === "I").length, 1 + policy.pairs); // one is not timed
});

test("a batch that another program held up does not make the samples shorter", () => {
  const clock = fakeClock();
  let calls = 0;
  const heldUp = clock.work("C", () => (calls++ === 2 ? 4 : 0.1)); // a long batch of one run, by accident
  const batch = warmUp(heldUp, policy, 5, clock.now, { start: -100, calls: 100 });
  assert.ok(batch >= 50 && batch <= 52, `a batch of ${batch}`);
});

test("a sample far below its length is taken again with more runs", () => {
  const clock = fakeClock();
  let slow = true;
  const challenger = { run: clock.work("C", () => (slow ? 5 : 0.1)), batch: 1 };
  slow = false; // it was warmed up while the machine was slow
  const { samples_ms, batch } = takeSamples(challenger, null, policy, clock);
  assert.equal(batch, 50);
  assert.ok(samples_ms.length === 6 && samples_ms.every((ms) => Math.abs(ms - 0.1) < 0.01));
});

test("early stop is over the incumbent's median, not over one slow sample of it", () => {
  const clock = fakeClock();
  let calls = 0;
  const shaky = clock.work("I", () => (calls++ === 0 ? 100 : 10));
  assert.equal(takeSamples(cold(clock.work("C", 40)), cold(shaky), policy, clock).stopped_early, true);
  assert.match(runsOf(clock.log), /CICIC$/);
});

test("the last challenger stays warm: more pairs of it, or as the incumbent, begin at once", async () => {
  const bench = new Bench(ticking());
  bench.setFixture(fixture, blobs);
  const made = [];
  const compile = WebAssembly.compile;
  const variant = (sha256, bytes = addKernel) => ({ header: { ...header("add", n), sha256 }, bytes });
  WebAssembly.compile = (bytes) => (made.push(bytes), compile(bytes));
  try {
    const first = await bench.measure(variant("a"), variant("r"), quick);
    const again = await bench.measure(variant("a"), variant("r"), quick);
    assert.equal(made.length, 2);
    assert.deepEqual([again.error_ratio, again.guard_ok, again.samples_ms.length], [0, true, 2]);
    assert.equal(again.instantiate_ms, first.instantiate_ms);
    assert.equal(again.batch, first.batch);
    await bench.measure(variant("b"), variant("a"), quick);
    assert.equal(made.length, 3, "a winner is warm as the incumbent");
    await bench.measure(variant("r"), variant("a"), quick);
    assert.equal(made.length, 4, "an incumbent that challenges is a kernel of its own");
    const wrong = await bench.measure(variant("w", doubleKernel), variant("a"), quick);
    assert.deepEqual((await bench.measure(variant("w", doubleKernel), variant("a"), quick)).error_ratio, wrong.error_ratio);
    assert.ok(wrong.error_ratio > 1);
    bench.setFixture(fixture, blobs);
    await bench.measure(variant("a"), variant("r"), quick);
    assert.equal(made.length, 7, "another fixture begins anew");
  } finally {
    WebAssembly.compile = compile;
  }
});
