import assert from "node:assert/strict";
import { after, test } from "node:test";
import { Choice } from "../../../resources/engine/choice.js";
import { Choices } from "../../../resources/engine/open/choices.js";
import { Engine } from "../../../resources/engine/engine.js";
import { compileKernel, linkKernel } from "../../../resources/engine/kernel.js";
import { Team } from "../../../resources/engine/team.js";
import { Bench } from "../../../resources/engine/tuning/measure.js";
import { checkRequest } from "../../../resources/studio/messages.js";
import { add, addKernel, at, bytesOf, doubleKernel, f32, floats, get, header, int, kernel, load, planOf, plus, rowAddKernel, store, trap } from "../wasm.js";
import { isolate, WebWorker } from "../web_worker.js";
import { OwnClock } from "../clock.js";

isolate();
after(() => Promise.all([...WebWorker.running].map((worker) => (worker.terminate(), worker.ended))));

const COUNT = 1000;
const memoryOf = () => new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true });

/** A team with one kernel of three pointers, on 3 x COUNT floats. */
async function office(threads, bytes, options) {
  const team = await Team.start(threads, options);
  const memory = memoryOf();
  const module = await compileKernel(bytes, "it", true);
  const run = await linkKernel(module, memory, 3, "it");
  const [id] = await team.add(memory, [module]);
  const pointers = [1024, 1024 + 4 * COUNT, 1024 + 8 * COUNT];
  const [a, b, out] = pointers.map((p) => new Float32Array(memory.buffer, p, COUNT));
  a.forEach((_, i) => ([a[i], b[i]] = [i, 1]));
  return { team, id, run, pointers, out, go: () => team.run(id, run, pointers, COUNT) };
}
const spin = (ms) => {
  for (const end = performance.now() + ms; performance.now() < end; );
};
/** A caller who does nothing until a helper has taken a part of what runs now. */
const lazy = (team) => {
  const helped = () => team.taken().reduce((sum, n, i) => (i ? sum + n : 0), 0);
  const before = helped();
  return () => {
    while (helped() === before);
  };
};

test("every part of the outer loop runs once, whatever the number of threads and the extent", async () => {
  // out[i] += a[i] + b[i]: a part that runs twice shows
  const once = kernel(3, (i) => store(at(2, i), plus(load(at(2, i)), plus(load(at(0, i)), load(at(1, i))))));
  for (const threads of [2, 3, 5]) {
    const { team, id, run, pointers, out } = await office(threads, once);
    assert.equal(team.threads, threads);
    for (const extent of [1, 2, 3, 7, 8, 64, 999, COUNT]) {
      out.fill(0);
      team.run(id, run, pointers, extent);
      assert.deepEqual([...out], Array.from(out, (_, i) => (i < extent ? i + 1 : 0)));
    }
    team.close();
  }
});

test("the chunks that each thread took add up", async () => {
  const { team, id, run, pointers } = await office(3, addKernel);
  for (const extent of [1, 5, COUNT]) {
    const before = team.taken();
    assert.equal(before.length, 3);
    team.run(id, run, pointers, extent);
    const took = team.taken().map((n, i) => n - before[i]);
    assert.ok(took.every((n) => n >= 0));
    assert.equal(took.reduce((a, b) => a + b), Math.min(extent, 3 * 4));
  }
  const before = team.taken();
  team.run(id, lazy(team), pointers, COUNT); // the caller is slow: helpers take what it leaves
  assert.ok(team.taken()[0] - before[0] < 12);
  team.close();
});

test("two thousand runs end, with pauses in which the helper falls asleep", async () => {
  const { team, go, out } = await office(2, addKernel);
  for (let r = 0; r < 2000; r++) {
    out.fill(-1, COUNT - 10);
    go();
    assert.equal(out[COUNT - 1], COUNT);
    if (r % 100 === 0) spin(0.3);
  }
  team.close();
});

test("on a page's main thread, where sleeping is forbidden, the caller stays awake", async (t) => {
  t.mock.method(Atomics, "wait", () => {
    throw new TypeError("Atomics.wait cannot be called in this context");
  });
  const { team, go, out } = await office(2, addKernel);
  for (let r = 0; r < 20; r++) go();
  assert.deepEqual([...out], Array.from(out, (_, i) => i + 1));
  team.close();
});

test("a trap in any thread is an error of that run, with nothing left running", async () => {
  const { team, id, run, pointers, go } = await office(2, kernel(3, () => trap));
  assert.throws(go, /unreachable/);
  // the caller's own chunks end well: it is the helper that fails
  assert.throws(() => team.run(id, lazy(team), pointers, 8), /failed in a thread of the engine: RuntimeError: unreachable/);
  team.run(id, run, pointers, 0);
  const memory = memoryOf();
  const module = await compileKernel(addKernel, "add", true);
  const [good] = await team.add(memory, [module]);
  team.run(good, await linkKernel(module, memory, 3, "add"), [1024, 1024, 2048], 8);
  assert.throws(() => team.run(999, lazy(team), pointers, 8), /no such kernel/);
  team.close();
});

test("a thread that never answers costs its time limit, and the team is lost", async () => {
  const forever = kernel(3, () => [0x03, 0x40, 0x0c, 0, 0x0b]);
  const { team, id, pointers } = await office(2, forever, { limit_ms: 150 });
  assert.throws(() => team.run(id, lazy(team), pointers, 8), /gave no answer within 0.15 s. Load the model again/);
  assert.throws(() => team.run(id, () => {}, pointers, 8), /Load the model again/);
  await assert.rejects(team.add(memoryOf(), []), /Load the model again/);
});

test("a team ends with its owner's word, and cannot be where it cannot run", async (t) => {
  const nobody = () => Promise.all([...WebWorker.running].map((worker) => worker.ended));
  await nobody(); // the teams before this one
  const team = await Team.start(3);
  assert.equal(WebWorker.running.size, 2);
  team.close();
  await nobody();
  assert.equal(WebWorker.running.size, 0);
  for (const threads of [1, 0, 1.5, 65]) await assert.rejects(Team.start(threads), /2 to 64 threads/);
  const start = () => new WebWorker(new URL("./no_such_worker.js", import.meta.url));
  await assert.rejects(Team.start(2, { start }), /thread of the engine died.*worker-src/);
  t.after(() => (globalThis.crossOriginIsolated = true));
  globalThis.crossOriginIsolated = false;
  await assert.rejects(Team.start(2), /no shared memory.*Cross-Origin-Opener-Policy/);
});

// The engine and the measurements on top of it

const [K, N] = [16, 40];
const weight = Array.from({ length: K * N }, (_, i) => i / 4);
const x = Array.from({ length: K }, (_, i) => 10 * i);
const sums = weight.map((w, i) => x[Math.floor(i / N)] + w);
const input = [{ name: "x", dtype: "f32", shape: [K], data: f32(...x) }];
const first = (width) => ({ ...header("rowadd", K * N, width ? [[1, width]] : []), bytes: rowAddKernel(K, N, width) });
const second = (bytes = addKernel) => ({ ...header("add", K * N), bytes });

async function engineOn(team) {
  const engine = new Engine(team);
  engine.load(planOf(K, N));
  engine.setWeights(64, f32(...weight));
  await engine.register([first(0), second()]);
  return engine;
}

test("the model gives the same with one, two and three threads, through hot swaps", async () => {
  const single = await engineOn(null);
  const reference = single.infer(input).outputs[0].data;
  assert.deepEqual(floats(reference), sums.map((s) => 2 * s));
  for (const threads of [2, 3]) {
    const team = await Team.start(threads);
    const engine = await engineOn(team);
    for (const width of [4, 16, 0, 8]) {
      await engine.register([first(width)]);
      assert.deepEqual(engine.infer(input, { runs: 40 }).outputs[0].data, reference);
    }
    const { steps_threads, steps_chunks } = engine.infer(input, { profile: true });
    steps_chunks.forEach((chunks) => assert.equal(chunks.length, threads));
    assert.ok(steps_threads.every((n) => n === 1 || n === threads));
    assert.deepEqual(single.infer(input, { profile: true }).steps_threads, [1, 1]);
    assert.deepEqual(single.infer(input, { profile: true }).steps_chunks, [[], []]);
    team.close();
  }
});

test("a kernel that is refused or traps leaves the threaded engine as it was", async () => {
  const team = await Team.start(2);
  const engine = await engineOn(team);
  const doubled = sums.map((s) => 2 * s);
  await assert.rejects(engine.register([{ ...first(4), panels: [[0, 4]] }]), /no packable weight/);
  await assert.rejects(engine.register([second(kernel(3, () => [], { imports: [] }))]), /something else than env.memory/);
  assert.deepEqual(floats(engine.infer(input).outputs[0].data), doubled);
  await engine.register([second(kernel(3, () => trap))]);
  for (let r = 0; r < 3; r++) assert.throws(() => engine.infer(input), /unreachable/);
  await engine.register([second()]);
  assert.deepEqual(floats(engine.infer(input, { runs: 1000 }).outputs[0].data), doubled);
  team.close();
});

test("measurements run on the team: right kernels get samples, wrong ones none", async () => {
  const team = await Team.start(2);
  const bench = new Bench({ now: () => performance.now(), quantum_ms: 0.001 }, team);
  const n = 5000;
  const data = (value) => bytesOf(new Float32Array(n).fill(value));
  const arg = (role, blob) => ({ role, dtype: "f32", nbytes: 4 * n, pack: null, blob });
  const args = [arg("input", 0), arg("input", 1), arg("output", null)];
  bench.setFixture({ workload: "add", args, outputs: [{ expected: 2, bound: 3 }] }, [data(1), data(2), data(3), data(1e-6)]);
  const policy = { pairs: 2, min_sample_ms: 0.2, min_quanta: 2, warmup_ms: 1, early_stop_ratio: 3, max_ms: 500 };
  const of = (bytes, sha256) => ({ header: { ...header("add", n), sha256 }, bytes });
  const incumbent = of(addKernel, "i");
  for (let r = 0; r < 3; r++) {
    const good = await bench.measure(of(addKernel, "c"), incumbent, policy);
    assert.deepEqual([good.error, good.error_ratio, good.guard_ok], ["", 0, true]);
    assert.ok(good.samples_ms.length >= 1 && good.incumbent_ms.length >= 1);
  }
  const wrong = await bench.measure(of(doubleKernel, "w"), incumbent, policy);
  assert.ok(wrong.error_ratio > 1 && !wrong.samples_ms.length);
  const stray = kernel(3, (i) => store(add(at(2, i), int(4)), plus(load(at(0, i)), load(at(1, i)))));
  assert.equal((await bench.measure(of(stray, "s"), incumbent, policy)).guard_ok, false);
  assert.match((await bench.measure(of(kernel(3, (i) => [...get(0), 0x1a, ...i, 0x1a, ...trap]), "t"), incumbent, policy)).error, /unreachable/);
  team.close();
});

test("threads are chosen by what takes less time", (t) => {
  const { spend } = new OwnClock().rule(t);
  const tell = (solo_ms, team_ms) => {
    const calls = [];
    const choice = new Choice(100);
    const run = () => choice.run(() => (calls.push("solo"), spend(solo_ms)), () => (calls.push("team"), spend(team_ms)));
    while (!choice.settled) run();
    return { choice, calls, run };
  };
  const long = tell(1.5, 0);
  assert.deepEqual([long.choice.team, long.choice.sure, long.calls], [true, true, ["solo"]]);
  const small = tell(0, 0.3);
  assert.deepEqual([small.choice.team, small.choice.sure, small.calls.length], [false, false, 10]);
  assert.equal(tell(0.6, 0.2).choice.team, true);
  for (let r = 0; r < 99; r++) small.run();
  assert.equal(small.choice.settled, true);
  small.run();
  assert.equal(small.choice.settled, false, "it looks again when the compiler has done its work");
});

test("extents of one power of two share what was learned, and others begin with it", (t) => {
  const { spend } = new OwnClock().rule(t);
  const [made, kernel] = [new Choices(), {}];
  const choices = { at: (extent) => made.of(kernel, extent) };
  const ways = (/** @type {number} */ extent, /** @type {number} */ ms) => {
    const calls = [];
    choices.at(extent).run(() => (calls.push("solo"), spend(ms)), () => (calls.push("team"), spend(ms / 2)));
    return calls;
  };
  assert.deepEqual([ways(40, 2), ways(63, 3), ways(32, 1.6)], [["solo"], ["team"], ["team"]]);
  assert.deepEqual(ways(64, 3), ["team"], "what pays for less pays for more");
  assert.equal(choices.at(16).settled, false, "but not for less");
  const alone = choices.at(16);
  for (let i = 0; i < 10; i++) alone.run(() => {}, () => spend(0.3));
  assert.deepEqual([alone.settled, alone.team], [true, false]);
  assert.deepEqual(ways(3, 0.1), ["solo"], "nor does more that did not pay");
  assert.deepEqual([choices.at(3).settled, choices.at(3).team], [true, false]);
});

test("requests carry a sane number of threads, or none", () => {
  const request = (threads) => checkRequest({ type: "load", id: 1, plan: {}, threads }, []);
  for (const good of [undefined, 1, 2, 64]) request(good);
  for (const bad of [0, 65, 1.5, "2", null]) assert.throws(() => request(bad), /needs the field "threads"/);
});
