import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { bestTier, hasTier } from "../../../resources/engine/features.js";
import { InferenceSession, Tensor } from "../../../resources/nnjit.js";
import { expected as continuation, V } from "../decoder.js";
import { base, encode, entry, expected, K, makeOpen, makeText, N, shard, tinyBundle } from "../tiny_bundle.js";
import { doubleKernel, planOf } from "../wasm.js";
import { isolate, WebWorker } from "../web_worker.js";

const x = () => new Tensor("float32", [10, 20, 30], [K]);
const realFetch = globalThis.fetch;
afterEach(() => {
  globalThis.fetch = realFetch;
});

/** Sessions that a test leaves open: they would keep kernels for the next one. @type {InferenceSession[]} */
const opened = [];
const create = InferenceSession.create.bind(InferenceSession);
InferenceSession.create = async (...given) => {
  const session = await create(...given);
  opened.push(session);
  return session;
};
afterEach(() => Promise.all(opened.splice(0).map((session) => session.release())));

/** A bundle served by a fake fetch; what was asked for. */
function serve(options) {
  const files = tinyBundle(options);
  const asked = [];
  globalThis.fetch = async (url) => {
    const file = String(url).slice(base.length - "manifest.json".length);
    asked.push(file);
    if (!(file in files)) return new Response("no", { status: 404 });
    const chunks = [files[file].slice(0, 7), files[file].slice(7)];
    return new Response(new ReadableStream({ pull: (c) => (chunks.length ? c.enqueue(chunks.shift()) : c.close()) }));
  };
  return asked;
}

test("a bundle loads and runs with the API of ONNX Runtime Web", async () => {
  const asked = serve();
  const session = await InferenceSession.create(base, { executionProviders: ["wasm"], numThreads: 1 });
  assert.deepEqual(session.inputNames, ["x"]);
  assert.deepEqual(session.outputNames, ["y"]);
  assert.deepEqual(session.inputMetadata, [{ name: "x", isTensor: true, type: "float32", shape: [K] }]);
  const { y } = await session.run({ x: x() });
  assert.ok(y instanceof Tensor && y.data instanceof Float32Array);
  assert.deepEqual([y.type, y.dims, [...y.data]], ["float32", [K, N], expected]);
  assert.deepEqual(asked.sort(), ["kernels/a.wasm", "kernels/b.wasm", "manifest.json", "plan.json", "weights.bin"]);
  assert.equal(session.verified, true);
  const { steps, runs_ms } = await session.profile({ x: x() }, 3);
  assert.deepEqual([steps.map((s) => s.workload), runs_ms.length], [["rowadd", "add"], 3]);
  await session.release();
  await assert.rejects(session.run({ x: x() }), /No model is loaded/);
});

test("a session for any size runs its kernels ahead after an answer, while the page is idle", async (t) => {
  serve({ change: makeOpen });
  const waiting = [];
  globalThis.requestIdleCallback = (work) => waiting.push(work);
  t.after(() => delete globalThis.requestIdleCallback);
  const idle = () => waiting.splice(0).forEach((work) => work({ timeRemaining: () => 0 }));
  const run = async (session, length) => [...(await session.run({ x: new Tensor("float32", new Float32Array(length).fill(1), [1, length]) })).y.data];
  const session = await InferenceSession.create(base, { numThreads: 1 });
  assert.equal(waiting.length, 0, "nothing runs before it is used");
  for (let length = 1; length < 12; length++) {
    assert.deepEqual(await run(session, length), new Array(length).fill(4));
    idle(); // between two steps of a run ahead
  }
  for (let moment = 0; moment < 20; moment++) idle();
  await run(session, 3);
  assert.equal(waiting.length, 0, "all kernels have run");
  const asked = await InferenceSession.create(base, { numThreads: 1 });
  await asked.warmUp();
  await run(asked, 3);
  idle();
  assert.equal(waiting.length, 0, "they were run by request");
});

test("a bundle of a decoder makes text, one at a time, and stops when its reader leaves", async () => {
  serve({ change: makeText });
  const session = await InferenceSession.create(base);
  const ids = [];
  for await (const { id, ms } of session.generate([2n, 3n], { maxTokens: 3 })) {
    assert.ok(ms >= 0);
    ids.push(id);
  }
  assert.deepEqual(ids, continuation([2, 3], 3));
  const running = session.generate(Int32Array.of(4));
  await running.next();
  await assert.rejects(session.generate([1]).next(), /made already/);
  await running.return();
  for await (const { id } of session.generate([1])) {
    assert.equal(id, continuation([1], 1)[0]);
    break;
  }
  await assert.rejects(session.generate([V]).next(), /no token of this model/);
});

test("a bundle without a cache makes no text", async () => {
  serve();
  const session = await InferenceSession.create(base);
  assert.throws(() => session.generate([1]), /makes no text/);
});

test("outputs can be asked for by name", async () => {
  serve();
  const session = await InferenceSession.create(base);
  assert.deepEqual(Object.keys(await session.run({ x: x() }, ["y"])), ["y"]);
  assert.deepEqual(Object.keys(await session.run({ x: x() }, {})), ["y"]);
  await assert.rejects(session.run({ x: x() }, ["z"]), /no output "z".*outputs are y/);
});

test("earlier outputs stay as they were", async () => {
  serve();
  const session = await InferenceSession.create(base);
  const { y } = await session.run({ x: x() });
  await session.run({ x: new Tensor(new Float32Array(K), [K]) });
  assert.deepEqual([...y.data], expected);
});

test("the memory of an output that was disposed of is used again, once", async () => {
  serve();
  const session = await InferenceSession.create(base);
  const name = session.outputNames[0];
  const run = async () => (await session.run({ x: x() }))[name];
  const [first, second] = [await run(), await run()];
  const { buffer } = first.data;
  first.dispose();
  first.dispose();
  assert.equal(first.data.length, 0);
  const [third, fourth] = [await run(), await run()];
  assert.equal(third.data.buffer, buffer);
  assert.notEqual(fourth.data.buffer, buffer);
  for (const tensor of [second, third, fourth]) assert.deepEqual([...tensor.data], expected);
});

test("wrong inputs are refused by name", async () => {
  serve();
  const session = await InferenceSession.create(base);
  await assert.rejects(session.run({}), /input "x" is missing/);
  await assert.rejects(session.run({ x: x(), z: x() }), /no input "z"/);
  await assert.rejects(session.run({ x: x().reshape([1, K]) }), /shape \[1,3\]/);
  await assert.rejects(session.run({ x: new Tensor("int32", [1, 2, 3], [K]) }), /dtype i32/);
  await assert.rejects(session.run({ x: Float32Array.of(1, 2, 3) }), /not a Tensor/);
});

const flipped = (bytes) => bytes.map((b, i) => (i === bytes.length - 1 ? b ^ 1 : b));
for (const file of ["plan.json", "weights.bin", "kernels/a.wasm"]) {
  test(`${file} with a changed byte is refused by its hash`, async () => {
    serve({ change: (_, files) => (files[file] = flipped(files[file])) });
    await assert.rejects(InferenceSession.create(base), new RegExp(`${file} .* its sha256 differs`));
  });
  test(`${file} that is missing or cut is refused`, async () => {
    serve({ change: (_, files) => delete files[file] });
    await assert.rejects(InferenceSession.create(base), new RegExp(`${file} .* the server answers 404`));
    serve({ change: (_, files) => (files[file] = files[file].slice(0, -4)) });
    await assert.rejects(InferenceSession.create(base), new RegExp(`${file} .* its manifest says`));
  });
}

test("weights in several files are each compared with their hash", async () => {
  serve({ change: shard });
  const session = await InferenceSession.create(base);
  assert.deepEqual([...(await session.run({ x: x() })).y.data], expected);
  assert.equal(session.manifest.weights.nbytes, 256);
  for (let i = 0; i < 4; i++) {
    serve({
      change(manifest, files) {
        shard(manifest, files);
        const { file } = manifest.weights.shards[i];
        files[file] = flipped(files[file]);
      },
    });
    await assert.rejects(InferenceSession.create(base), /weights\/[0-9a-f]{64}.bin .* its sha256 differs/);
  }
});

test("shards that do not make up the weights are refused", async () => {
  serve({ change: (manifest, files) => (shard(manifest, files), manifest.weights.shards.pop()) });
  await assert.rejects(InferenceSession.create(base), /files of the weights have 192 bytes, the manifest says 256/);
});

test("weights larger than said never reach the arena", async () => {
  serve({ change: (_, files) => (files["weights.bin"] = new Uint8Array(1e5)) });
  await assert.rejects(InferenceSession.create(base), /weights.bin of the bundle has \d+ bytes/);
});

test("a plan and a manifest that differ about the weights are refused", async () => {
  serve({ plan: { ...planOf(K, N), weights_bytes: 512 } });
  await assert.rejects(InferenceSession.create(base), /plan wants 512 bytes of weights, its manifest lists 256/);
});

test("manifests that are none, or of another version, are refused", async () => {
  serve({ change: (_, files) => (files["manifest.json"] = encode({ format: "zip" })) });
  await assert.rejects(InferenceSession.create(base), /not that of an NNJIT bundle/);
  serve({ change: (_, files) => (files["manifest.json"] = new TextEncoder().encode("<html>")) });
  await assert.rejects(InferenceSession.create(base), /manifest.json of the bundle is not JSON/);
  serve({ change: (m) => (m.version = 3) });
  await assert.rejects(InferenceSession.create(base), /version 3, this engine reads 1 to 2/);
  globalThis.fetch = async () => Promise.reject(new TypeError("network down"));
  await assert.rejects(InferenceSession.create(base), /cannot be fetched: network down/);
});

test("the best tier that the browser validates is taken, else the other one", async () => {
  const wrong = entry("kernels/relaxed.wasm", doubleKernel);
  const asked = serve({
    change: (m, files) => {
      m.kernels[1].tiers["relaxed-simd"] = wrong;
      files["kernels/relaxed.wasm"] = doubleKernel;
    },
  });
  await InferenceSession.create(base);
  assert.equal(asked.includes("kernels/relaxed.wasm"), hasTier("relaxed-simd"));
  assert.equal(asked.includes("kernels/b.wasm"), !hasTier("relaxed-simd"));
  serve({ change: (m) => (m.kernels[0].tiers = {}) });
  await assert.rejects(InferenceSession.create(base), /no kernel of rowadd that this browser can run/);
});

test("tiers are found by validating modules", () => {
  assert.equal(hasTier("simd128"), true);
  assert.equal(bestTier(() => true), "relaxed-simd");
  assert.equal(bestTier((bytes) => bytes.includes(0xe4)), "simd128");
  assert.equal(bestTier(() => false), null);
});

test("without SIMD and without the wasm provider there is a clear error", async (t) => {
  serve();
  await assert.rejects(InferenceSession.create(base, { executionProviders: ["webnn"] }), /No execution provider of webnn/);
  t.mock.method(WebAssembly, "validate", () => false);
  await assert.rejects(InferenceSession.create(base), /no Wasm SIMD/);
});

test("without cross-origin isolation one thread runs, and says so", async (t) => {
  serve();
  const warn = t.mock.method(console, "warn", () => {});
  const session = await InferenceSession.create(base, { numThreads: 2 });
  assert.equal(session.threads, 1);
  assert.match(warn.mock.calls[0].arguments[0], /2 threads were asked for.*not cross-origin isolated/);
  assert.equal((await InferenceSession.create(base, { numThreads: 0 })).threads, 1);
  assert.equal(warn.mock.callCount(), 1);
  for (const numThreads of [-1, 1.5, 65]) await assert.rejects(InferenceSession.create(base, { numThreads }), /numThreads is/);
});

test("an isolated page runs on threads, hashes checked, same outputs; release ends them", async (t) => {
  serve();
  isolate();
  t.after(() => (globalThis.crossOriginIsolated = false));
  const session = await InferenceSession.create(base, { numThreads: 2 });
  const workers = [...WebWorker.running];
  assert.deepEqual([session.threads, session.verified, workers.length], [2, true, 1]);
  for (let r = 0; r < 50; r++) assert.deepEqual([...(await session.run({ x: x() })).y.data], expected);
  const { steps } = await session.profile({ x: x() }, 3);
  assert.ok(steps.every((s) => s.threads === 1 || s.threads === 2));
  await session.release();
  await Promise.all(workers.map((worker) => worker.ended));
  const auto = await InferenceSession.create(base, { numThreads: 0 });
  assert.equal(auto.threads, Math.min(4, navigator.hardwareConcurrency));
  await auto.release();
});

test("sessions share equal kernels and the threads; the last one ends them", async (t) => {
  isolate();
  t.after(() => (globalThis.crossOriginIsolated = false));
  const compile = t.mock.method(WebAssembly, "compile");
  const asked = serve();
  const kernels = () => asked.filter((file) => file.startsWith("kernels")).length;
  const both = await Promise.all([1, 2].map(() => InferenceSession.create(base, { numThreads: 2 })));
  assert.deepEqual([compile.mock.callCount(), kernels(), WebWorker.running.size], [2, 2, 1]);
  const workers = [...WebWorker.running];
  await both[0].release();
  await both[0].release();
  for (let r = 0; r < 20; r++) assert.deepEqual([...(await both[1].run({ x: x() })).y.data], expected);
  await both[1].release();
  await Promise.all(workers.map((worker) => worker.ended));
  await (await InferenceSession.create(base)).release();
  assert.deepEqual([compile.mock.callCount(), kernels()], [4, 4]);
});

test("a session after one whose kernel was wrong gets the right one", async () => {
  serve({ change: (_, files) => (files["kernels/a.wasm"] = flipped(files["kernels/a.wasm"])) });
  await assert.rejects(InferenceSession.create(base), /a.wasm .* its sha256 differs/);
  serve();
  assert.deepEqual([...(await (await InferenceSession.create(base)).run({ x: x() })).y.data], expected);
});

test("tensors have the types, checks and views of ONNX Runtime", () => {
  assert.deepEqual(new Tensor("int64", [1, 2], [2]).data, BigInt64Array.of(1n, 2n));
  assert.deepEqual(new Tensor("bool", [1, 0], [2]).data, Uint8Array.of(1, 0));
  assert.equal(new Tensor(Int32Array.of(1, 2), [1, 2]).type, "int32");
  assert.equal(new Tensor(Uint8Array.of(1)).type, "uint8");
  const halves = new globalThis.Float16Array([0, 0.5, -2]).subarray(1);
  for (const tensor of [new Tensor("float16", halves, [2]), new Tensor(halves, [2]), new Tensor("float16", [0.5, -2], [2])])
    assert.deepEqual([tensor.type, tensor.data], ["float16", Uint16Array.of(0x3800, 0xc000)]);
  assert.deepEqual(new Tensor("float16", Uint16Array.of(0x3800), [1]).data, Uint16Array.of(0x3800), "bits stay bits");
  const data = Float32Array.of(1, 2, 3, 4);
  const tensor = new Tensor("float32", data, [2, 2]);
  assert.equal(tensor.data, data);
  assert.equal(tensor.size, 4);
  assert.deepEqual(tensor.reshape([4]).dims, [4]);
  assert.throws(() => new Tensor("float32", data, [3]), /shape \[3\] cannot hold 4/);
  assert.throws(() => new Tensor("int64", data, [4]), /takes a BigInt64Array, not a Float32Array/);
  assert.throws(() => new Tensor("string", ["a"], [1]), /"string" is not supported/);
});

// the last test: what such a session still compiles would be counted by others
test("a session that failed leaves no thread", async (t) => {
  isolate();
  t.after(() => (globalThis.crossOriginIsolated = false));
  serve({ change: (_, files) => (files["weights.bin"] = flipped(files["weights.bin"])) });
  await assert.rejects(InferenceSession.create(base, { numThreads: 2 }), /weights.bin .* its sha256 differs/);
  await Promise.all([...WebWorker.running].map((worker) => worker.ended));
  assert.equal(WebWorker.running.size, 0);
});
