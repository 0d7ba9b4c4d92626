import assert from "node:assert/strict";
import { test } from "node:test";
import { openNative } from "../../../resources/engine/gpu/native/device.js";
import { GpuBench } from "../../../resources/studio/gpu/measure.js";
import { fakeGpu } from "../fake_gpu.js";
import { OwnClock } from "../clock.js";

const floats = (bytes) => new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4);
const bytesOf = (...values) => new Uint8Array(new Float32Array(values).buffer);
const policy = { pairs: 4, min_sample_ms: 5, min_quanta: 20, warmup_ms: 1, early_stop_ratio: 3, max_ms: 4000, digest: true };

let calls = [];
let lazyRuns = 0;
/** A kernel that notes its name and takes its time. */
const named = (name, ns, run) => Object.assign((views) => (calls.push(name), run(views)), { ns });
const double = ([x, y]) => floats(y).set(floats(x).map((v) => 2 * v));
const kernels = {
  double: named("double", 1000n, double),
  other: named("other", 1100n, double),
  lazy: named("lazy", 900n, (views) => lazyRuns++ < 3 && double(views)),
  slow: named("slow", 9000n, double),
  wrong: named("wrong", 1000n, ([x, y]) => floats(y).set(floats(x))),
  silent: named("silent", 1000n, () => {}),
  beyond: named("beyond", 1000n, (views) => {
    double(views);
    new Uint8Array(views[1].buffer)[views[1].byteOffset + views[1].length + 8] = 0;
  }),
  inward: named("inward", 1000n, (views) => {
    double(views);
    views[0][0] ^= 1;
  }),
};
const fixture = {
  workload: "double",
  args: [
    { role: "input", dtype: "f32", nbytes: 12, pack: null, blob: 0 },
    { role: "output", dtype: "f32", nbytes: 12, pack: null, blob: null },
    { role: "workspace", dtype: "f32", nbytes: 8, pack: null, blob: null },
  ],
  outputs: [{ expected: 1, bound: 2 }],
};
const blobs = [bytesOf(1, 2, 3), bytesOf(2, 4, 6), bytesOf(0.1, 0.1, 0.1)];

function kernel(code, access = ["read", "read_write"]) {
  const document = { version: 1, scratch: [], requires: [], dispatches: [{ code, entry: "main", workgroups: [1, 1, 1], bindings: ["a0", "a1"], access }] };
  return { header: { workload: "double", settings: "", sha256: code + access, panels: [], parallel_extent: 1 }, bytes: new TextEncoder().encode(JSON.stringify(document)) };
}

/** The page's clock moves by a ms with each look, so that no wait of the machine is seen by it. */
const page = new OwnClock(1);
performance.now = page.now;

async function open(options) {
  const gpu = fakeGpu(kernels, options);
  const device = await openNative(gpu);
  const bench = new GpuBench(device, { now: page.now, quantum_ms: 0.005 });
  await bench.setFixture(fixture, blobs);
  calls = [];
  return { bench, device, fake: gpu.devices[0] };
}

test("challenger and incumbent take turns, in batches of about 3 ms of the GPU's time", async () => {
  const { bench, fake } = await open();
  const result = await bench.measure(kernel("double"), kernel("other"), policy);
  assert.equal(result.error, "");
  assert.equal(result.gpu_clock, "timestamp");
  assert.deepEqual(result.samples_ms, [0.001, 0.001, 0.001, 0.001]);
  assert.deepEqual(result.incumbent_ms.map((ms) => ms.toFixed(4)), Array(4).fill("0.0011"));
  assert.equal(result.batch, 3000);
  assert.ok(result.guard_ok && result.error_ratio === 0 && result.wall_ms > 0 && result.pipeline_ms >= 0);
  assert.ok(result.total_ms >= result.waited_ms && result.waited_ms >= result.late_ms);
  const order = calls.filter((name, i) => name !== calls[i - 1]);
  // checked, warmed up, warmed up; then C I I C, C I I C with a lead, and the cross-check
  assert.match(order.join(" "), /double other double other double .*double$/);
  assert.ok(fake.passes.filter((p) => p.begin !== null && p.end !== null).length >= 10);
});

test("the same challenger again is neither compiled nor checked again", async () => {
  const { bench, fake } = await open();
  const first = await bench.measure(kernel("double"), null, policy);
  const compiled = fake.compiled.length;
  const again = await bench.measure(kernel("double"), null, policy);
  assert.equal(fake.compiled.length, compiled);
  assert.deepEqual([again.digest, again.instantiate_ms, again.samples_ms], [first.digest, first.instantiate_ms, first.samples_ms]);
  const as_incumbent = await bench.measure(kernel("other"), kernel("double"), policy);
  assert.equal(as_incumbent.incumbent_ms.length, 4);
  assert.equal(fake.compiled.filter((c) => c === "double").length, 1);
});

test("samples under a clock that is down are taken again", async () => {
  const { bench, fake } = await open();
  await bench.measure(kernel("double"), kernel("other"), policy);
  const looks = async (chain_ns) => {
    [fake.chain_ns, fake.looks] = [[...chain_ns], 0];
    const result = await bench.measure(kernel("double"), kernel("other"), { ...policy, pairs: 2 });
    assert.equal(result.samples_ms.length, 2);
    return fake.looks;
  };
  assert.equal(await looks([]), 1);
  assert.equal(await looks([43_000n]), 1);
  assert.equal(await looks([80_000n, 50_000n]), 3);
});

test("a clock that stays down is taken for the best there is, after a while", async () => {
  const { bench, fake } = await open();
  await bench.measure(kernel("double"), null, policy);
  fake.chain_ns = Array(1_000_000).fill(80_000n);
  const start = page.ms;
  assert.equal((await bench.measure(kernel("double"), null, { ...policy, pairs: 2 })).samples_ms.length, 2);
  assert.ok(page.ms - start >= 300);
  fake.looks = 0;
  await bench.measure(kernel("double"), null, { ...policy, pairs: 2 });
  assert.equal(fake.looks, 1);
});

test("one that is far slower is given up after two samples", async () => {
  const { bench } = await open();
  const result = await bench.measure(kernel("slow"), kernel("double"), policy);
  assert.deepEqual([result.stopped_early, result.samples_ms.length, result.wall_ms], [true, 2, 0]);
});

test("what is wrong, or writes where it must not, gets no samples and does no lasting harm", async () => {
  const { bench } = await open();
  for (const [name, guard_ok] of [["wrong", true], ["silent", true], ["beyond", false], ["inward", false]]) {
    const result = await bench.measure(kernel(name), kernel("double"), policy);
    assert.equal(result.error, "");
    assert.deepEqual([name, result.guard_ok, result.samples_ms], [name, guard_ok, []]);
    assert.equal(result.error_ratio <= 1, !guard_ok);
    const right = await bench.measure(kernel("double"), null, policy);
    assert.deepEqual([right.guard_ok, right.error_ratio], [true, 0]);
  }
});

test("a kernel that skips its work where it is timed is refused", async () => {
  const { bench } = await open();
  const result = await bench.measure(kernel("lazy"), kernel("double"), policy);
  assert.equal(result.error_ratio, 0);
  assert.match(result.error, /timed runs left the outputs unwritten/);
});

test("a kernel that asks to write an input, or does not compile, is a result with an error", async () => {
  const { bench } = await open();
  const greedy = await bench.measure(kernel("double", ["read_write", "read_write"]), null, policy);
  assert.match(greedy.error, /writes argument 0, an input/);
  const broken = await bench.measure(kernel("nothing"), null, policy);
  assert.match(broken.error, /does not compile/);
  assert.match((await bench.measure(kernel("nothing"), null, policy)).error, /refused before/);
  await assert.rejects(bench.measure({ ...kernel("double"), header: { ...kernel("double").header, workload: "none" } }, null, policy), /no fixture of none/);
});

test("without timestamps the page's clock is used, and said", async () => {
  const { bench } = await open({ features: [] });
  const result = await bench.measure(kernel("double"), null, { ...policy, pairs: 1, max_ms: 200 });
  assert.equal(result.gpu_clock, "wall");
  assert.equal(result.samples_ms.length, 1);
});

test("a lost device is no outcome of a kernel", async () => {
  const { bench, device } = await open();
  const measuring = bench.measure(kernel("double"), null, policy);
  device.lose();
  await assert.rejects(measuring, { code: "gpu-lost" });
});
