import assert from "node:assert/strict";
import { test } from "node:test";
import { openNative } from "../../../resources/engine/gpu/native/device.js";
import { passesOf } from "../../../resources/engine/gpu/native/passes.js";
import { fakeGpu } from "../fake_gpu.js";

const words = (bytes) => [...new Uint32Array(bytes.slice().buffer)];
const bytesOf = (...values) => new Uint8Array(new Uint32Array(values).buffer);
const asWords = (bytes) => new Uint32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4);

const kernels = {
  increase: ([x, y]) => void (asWords(y)[0] = asWords(x)[0] + 1),
  double: ([y]) => void (asWords(y)[0] *= 2),
  invalid: null,
};

async function open(options) {
  const gpu = fakeGpu(kernels, options);
  const device = await openNative(gpu);
  const fake = gpu.devices[0];
  const x = device.createBuffer(4, "x");
  const y = device.createBuffer(4, "y");
  const increase = await device.pipeline({ code: "increase", entry: "main", access: ["read", "read_write"] });
  const double = await device.pipeline({ code: "double", entry: "main", access: ["read_write"] });
  const all = (buffer) => ({ buffer, offset: 0, size: buffer.nbytes });
  const dispatch = (pipeline, ...buffers) => ({ op: "dispatch", pipeline, bindings: buffers.map(all), workgroups: [1, 1, 1] });
  return { device, fake, x, y, increase, double, dispatch };
}

test("a host write between two dispatches is seen by the second alone", async () => {
  const { device, x, y, increase, dispatch } = await open();
  const z = device.createBuffer(4, "z");
  device.write(x, 0, bytesOf(10));
  device.encode([dispatch(increase, x, y)]);
  device.write(x, 0, bytesOf(20));
  device.encode([dispatch(increase, x, z)]);
  assert.deepEqual(words(await device.read(y, 0, 4)), [11]);
  assert.deepEqual(words(await device.read(z, 0, 4)), [21]);
});

test("a readback keeps its place before later dispatches and a sync", async () => {
  const { device, x, y, increase, double, dispatch } = await open();
  device.write(x, 0, bytesOf(1));
  device.encode([dispatch(increase, x, y)]);
  const early = device.read(y, 0, 4);
  device.encode([dispatch(double, y)]);
  await device.done();
  assert.deepEqual(words(await early), [2]);
  assert.deepEqual(words(await device.read(y, 0, 4)), [4]);
});

test("a read that is not in a hurry does not ask the GPU whether it has finished", async () => {
  const { device, fake, x } = await open();
  let asked = 0;
  const { onSubmittedWorkDone } = fake.queue;
  fake.queue.onSubmittedWorkDone = () => (asked++, onSubmittedWorkDone());
  device.write(x, 0, bytesOf(3));
  assert.deepEqual(words(await device.read(x, 0, 4, false)), [3]);
  assert.equal(asked, 0);
  assert.deepEqual(words(await device.read(x, 0, 4)), [3]);
  assert.ok(asked > 0);
});

test("a buffer that is freed while commands use it lives until they have run", async () => {
  const { device, fake, x, y, increase, dispatch } = await open();
  device.write(x, 0, bytesOf(5));
  device.encode([dispatch(increase, x, y)]);
  device.destroyBuffer(x);
  device.destroyBuffer(x);
  assert.throws(() => device.encode([dispatch(increase, x, y)]), /The buffer x is gone/);
  assert.deepEqual(words(await device.read(y, 0, 4)), [6]);
  assert.throws(() => device.write(x, 0, bytesOf(1)), /gone/);
  assert.equal(fake.scopes.length, 0);
});

test("parts of a readback are arrays of their own, copied once", async () => {
  const { device, x } = await open();
  device.write(x, 0, bytesOf(7));
  const parts = await device.readParts(x, 0, [4, 0]);
  assert.deepEqual(parts.map((part) => [...part]), [[...bytesOf(7)], []]);
  assert.deepEqual(parts.map((part) => part.buffer.byteLength), [4, 0]);
  assert.deepEqual(await device.readParts(x, 0, []), []);
});

test("an error in a readback is that one's alone", async () => {
  const { device, fake, x, y } = await open();
  device.write(x, 0, bytesOf(7));
  fake.badMaps = 1;
  const [bad, good] = await Promise.allSettled([device.read(y, 0, 4), device.read(x, 0, 4)]);
  assert.match(bad.reason.message, /The GPU did not answer: the map failed/);
  assert.deepEqual(words(good.value), [7]);
  await assert.rejects(device.read(x, 0, 8), /no words of the buffer x/);
  assert.deepEqual(words(await device.read(x, 0, 4)), [7]);
});

test("work that the GPU refuses fails what waited for it, and nothing later", async () => {
  const { device, x, y, dispatch } = await open();
  const invalid = await device.pipeline({ code: "invalid", entry: "main", access: ["read_write"] });
  device.encode([dispatch(invalid, y)]);
  const [read, done] = await Promise.allSettled([device.read(y, 0, 4), device.done()]);
  assert.match(read.reason.message, /The GPU refuses the work: the dispatch is not valid/);
  assert.equal(done.reason.code, "gpu-kernel");
  device.write(x, 0, bytesOf(3));
  assert.deepEqual(words(await device.read(x, 0, 4)), [3]);
  await device.done();
});

test("a lost device rejects what waits and all that comes", async () => {
  const { device, x } = await open();
  const waiting = Promise.allSettled([device.read(x, 0, 4), device.readStamps(1), device.done()]);
  device.lose();
  const [read, stamps] = await waiting; // a sync may have ended before
  for (const { reason } of [read, stamps]) assert.equal(reason.code, "gpu-lost");
  assert.equal((await device.lost).reason, "unknown");
  assert.throws(() => device.write(x, 0, bytesOf(1)), { code: "gpu-lost" });
  await assert.rejects(device.pipeline({ code: "double", entry: "main", access: ["read_write"] }), { code: "gpu-lost" });
});

test("many dispatches share a pass and a flush, and bind groups come again", async () => {
  const { device, fake, x, y, increase, double, dispatch } = await open();
  const [before, submits] = [{ ...device.counters }, fake.submits];
  const again = dispatch(increase, x, y);
  device.encode([again, again, dispatch(increase, x, y), dispatch(double, y)]);
  await device.done();
  const made = (name) => device.counters[name] - before[name];
  assert.equal(fake.submits - submits, 1);
  assert.deepEqual(["flushes", "passes", "dispatches", "bind_groups_made", "bind_groups_hit"].map(made), [1, 1, 4, 2, 2]);
  const bytes = device.counters.buffer_bytes;
  device.destroyBuffer(y);
  assert.equal(device.counters.buffer_bytes, bytes - 4);
  const other = device.createBuffer(4);
  device.encode([dispatch(increase, x, other)]);
  await device.done();
  assert.equal(made("bind_groups_made"), 3);
});

test("staging buffers are used again", async () => {
  const { device, x } = await open();
  await device.read(x, 0, 4);
  const { staging_made, staging_reused } = device.counters;
  await device.read(x, 0, 4);
  assert.deepEqual([device.counters.staging_made, device.counters.staging_reused], [staging_made, staging_reused + 1]);
});

test("equal pipelines are compiled once, at the same time as others; errors name the line", async () => {
  const { device, fake } = await open();
  const spec = { code: "double", entry: "main", access: ["read_write"] };
  assert.equal(fake.compiled.filter((c) => c === "double").length, 1);
  const [a, b] = await Promise.all([device.pipeline(spec), device.pipeline({ ...spec })]);
  assert.equal(a, b);
  assert.equal(fake.compiled.filter((c) => c === "double").length, 1);
  await assert.rejects(device.pipeline({ ...spec, code: "nothing" }), /line 3: there is no nothing/);
  await assert.rejects(device.pipeline({ ...spec, access: Array(9).fill("read") }), /binds 9 buffers, this GPU allows 8/);
  await device.done();
});

test("misuse is refused before anything is queued", async () => {
  const { device, x, y, increase, dispatch } = await open();
  assert.throws(() => device.encode([dispatch(increase, x, x)]), /writes the buffer x, which it is also given/);
  assert.throws(() => device.encode([dispatch(increase, x)]), /2 bindings, not 1/);
  assert.throws(() => device.encode([{ ...dispatch(increase, x, y), workgroups: [70000, 1, 1] }]), /70000 workgroups/);
  assert.throws(() => device.encode([{ op: "copy", from: x, fromOffset: 0, to: x, toOffset: 0, nbytes: 4 }]), /to itself/);
  assert.throws(() => device.write(x, 2, bytesOf(1)), /no words/);
  assert.throws(() => device.createBuffer(2 ** 40), { code: "gpu-memory" });
});

test("stamps take the ends of passes, and the clock's step is found", async () => {
  const { device, fake, x, y, increase, dispatch } = await open();
  assert.deepEqual(device.timestamps, { available: true, quantum_ns: 1000, slots: 4096 });
  fake.passes.length = 0;
  const one = dispatch(increase, x, y);
  device.encode([{ op: "stamp", index: 0 }, one, one, { op: "stamp", index: 1 }, one, { op: "stamp", index: 2 }]);
  const [a, b, c] = await device.readStamps(3);
  assert.deepEqual([b - a, c - b], [2000n, 1000n]);
  assert.deepEqual(fake.passes, [{ dispatches: 2, begin: 0, end: 1 }, { dispatches: 1, begin: null, end: 2 }]);
});

test("without timestamps there are none", async () => {
  const { device } = await open({ features: [] });
  assert.equal(device.timestamps.available, false);
  assert.throws(() => device.encode([{ op: "stamp", index: 0 }]), /no stamp 0/);
  await assert.rejects(device.readStamps(1), /no timestamps/);
});

test("an adapter may come late; without WebGPU it is said", async () => {
  const { device } = await open({ nulls: 2 });
  assert.equal(device.info.vendor, "fake");
  await assert.rejects(openNative(undefined), { code: "gpu-unavailable" });
});

test("copies and empty stamps part the passes", () => {
  const d = { op: "dispatch" };
  const s = (index) => ({ op: "stamp", index });
  const shape = (commands) => passesOf(commands).map((p) => (p.op === "pass" ? [p.begin, p.dispatches.length, p.end] : p.op));
  assert.deepEqual(shape([d, d, { op: "copy" }, d]), [[null, 2, null], "copy", [null, 1, null]]);
  assert.deepEqual(shape([s(0), s(1), d, s(2), s(3)]), [[0, 0, null], [1, 1, 2], [3, 0, null]]);
  assert.deepEqual(shape([s(0), { op: "copy" }, s(1)]), [[0, 0, null], "copy", [1, 0, null]]);
});
