/** Which execution provider runs a bundle: the first that works here, and why not one before. */
import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { InferenceSession, Tensor } from "../../../resources/nnjit.js";
import { fakeGpu } from "../fake_gpu.js";
import { base, encode, entry, expected, K, N, shard, tinyBundle } from "../tiny_bundle.js";

const x = () => new Tensor("float32", [10, 20, 30], [K]);
const view = (bytes) => new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4);
/** What the documents' code does, over the bytes of its bindings. */
const wgsl = {
  rowadd: ([a, w, out]) => view(out).set(Array.from({ length: K * N }, (_, i) => view(a)[Math.floor(i / N)] + view(w)[i])),
  add: ([a, out]) => view(out).set(view(a).map((v) => 2 * v)),
  subgrouped: ([a, out]) => view(out).set(view(a).map((v) => 2 * v)),
};
const realFetch = globalThis.fetch;
afterEach(() => {
  globalThis.fetch = realFetch;
  gpuOf(undefined);
});

function gpuOf(gpu) {
  Object.defineProperty(navigator, "gpu", { value: gpu, configurable: true });
}

function document(code, bindings) {
  const access = bindings.map((_, i) => (i === bindings.length - 1 ? "read_write" : "read"));
  return encode({ version: 1, scratch: [], requires: [], dispatches: [{ code, entry: "main", workgroups: [1, 1, 1], bindings, access }] });
}

/** A bundle of both backends behind a fetch that gives odd parts. */
/** Sessions that a test leaves open: they would keep kernels for the next one. @type {InferenceSession[]} */
const opened = [];
const create = InferenceSession.create.bind(InferenceSession);
InferenceSession.create = async (...given) => {
  const session = await create(...given);
  opened.push(session);
  return session;
};
afterEach(() => Promise.all(opened.splice(0).map((session) => session.release())));

function serve({ gpu = true, change = () => {} } = {}) {
  const addGpu = (manifest, files) => {
    files["kernels/a.json"] = document("rowadd", ["a0", "a1", "a2"]);
    files["kernels/b.json"] = document("add", ["a0", "a2"]);
    files["kernels/c.json"] = document("subgrouped", ["a0", "a2"]);
    const json = (name) => entry(`kernels/${name}.json`, files[`kernels/${name}.json`]);
    if (gpu)
      manifest.gpu_kernels = [
        { workload: "rowadd", settings: "default", tiers: { wgsl: json("a") } },
        { workload: "add", settings: "default", tiers: { wgsl: json("b"), "wgsl-subgroups": json("c") } },
      ];
    change(manifest, files);
  };
  const files = tinyBundle({ change: addGpu });
  const asked = [];
  globalThis.fetch = async (url) => {
    const file = String(url).slice(base.length - "manifest.json".length);
    asked.push(file);
    const parts = [files[file].slice(0, 7), files[file].slice(7)];
    return new Response(new ReadableStream({ pull: (c) => (parts.length ? c.enqueue(parts.shift()) : c.close()) }));
  };
  return asked;
}

const both = { executionProviders: ["webgpu", "wasm"] };

test("a bundle runs on WebGPU, its weights in whole words", async () => {
  const gpu = fakeGpu(wgsl);
  gpuOf(gpu);
  const asked = serve();
  const session = await InferenceSession.create(base, both);
  assert.deepEqual([session.executionProvider, session.fallbackReason, session.tier, session.threads], ["webgpu", "", "wgsl", 1]);
  const { y } = await session.run({ x: x() });
  assert.deepEqual([y.type, y.dims, [...y.data]], ["float32", [K, N], expected]);
  assert.ok(session.verified && session.memoryBytes > 0);
  assert.deepEqual(asked.filter((file) => file.startsWith("kernels")).sort(), ["kernels/a.json", "kernels/b.json"]);
  const { steps } = await session.profile({ x: x() }, 2);
  assert.deepEqual(steps.map((s) => s.workload), ["rowadd", "add"]);
  y.dispose();
  await session.release();
});

test("weights in several files run on WebGPU", async () => {
  gpuOf(fakeGpu(wgsl));
  serve({ change: shard });
  const session = await InferenceSession.create(base, both);
  assert.deepEqual([session.executionProvider, [...(await session.run({ x: x() })).y.data]], ["webgpu", expected]);
  await session.release();
});

test("the best tier of the device is taken, workload by workload", async () => {
  gpuOf(fakeGpu(wgsl, { features: ["timestamp-query", "subgroups"] }));
  const asked = serve();
  const session = await InferenceSession.create(base, both);
  assert.equal(session.tier, "wgsl-subgroups");
  assert.deepEqual(asked.filter((file) => file.startsWith("kernels")).sort(), ["kernels/a.json", "kernels/c.json"]);
  assert.deepEqual([...(await session.run({ x: x() })).y.data], expected);
});

for (const [why, prepare, reason] of [
  ["without WebGPU", () => serve(), /WebGPU/],
  ["without kernels for it", () => (gpuOf(fakeGpu(wgsl)), serve({ gpu: false })), /no kernels for WebGPU/],
  [
    "with a damaged kernel",
    () => (gpuOf(fakeGpu(wgsl)), serve({ change: (_, files) => (files["kernels/b.json"] = document("other", ["a0", "a2"])) })),
    /kernels\/b.json of the bundle/,
  ],
  [
    "with a document that is none",
    () => {
      gpuOf(fakeGpu(wgsl));
      serve({ change: ({ gpu_kernels }, files) => {
        files["kernels/b.json"] = encode({ version: 1 });
        gpu_kernels[1].tiers.wgsl = entry("kernels/b.json", files["kernels/b.json"]);
      } });
    },
    /kernel document of add is refused/,
  ],
  ["with a kernel that does not compile", () => (gpuOf(fakeGpu({ ...wgsl, add: null })), serve()), /kernel of add/],
])
  test(`${why} a bundle runs in Wasm, and says why`, async () => {
    prepare();
    const session = await InferenceSession.create(base, both);
    assert.equal(session.executionProvider, "wasm");
    assert.match(session.fallbackReason, reason);
    assert.equal(session.tier, "relaxed-simd");
    assert.deepEqual([...(await session.run({ x: x() })).y.data], expected);
    await assert.rejects(InferenceSession.create(base, { executionProviders: ["webgpu"] }), reason);
  });

test("a lost GPU hands the model to Wasm, between two runs", async () => {
  const gpu = fakeGpu(wgsl);
  gpuOf(gpu);
  serve();
  const session = await InferenceSession.create(base, both);
  await session.run({ x: x() });
  const [device] = gpu.devices;
  device.gone = true;
  device.lose({ reason: "unknown", message: "pulled out" });
  assert.deepEqual([...(await session.run({ x: x() })).y.data], expected);
  assert.equal(session.executionProvider, "wasm");
  assert.match(session.fallbackReason, /pulled out|lost/);
  assert.deepEqual([...(await session.run({ x: x() })).y.data], expected);
});

test("runs that lose the GPU together open the next provider once", async () => {
  const gpu = fakeGpu(wgsl);
  gpuOf(gpu);
  const asked = serve();
  const session = await InferenceSession.create(base, both);
  gpu.devices[0].gone = true;
  gpu.devices[0].lose({ reason: "unknown", message: "pulled out" });
  const results = await Promise.all([1, 2, 3].map(() => session.run({ x: x() })));
  for (const { y } of results) assert.deepEqual([...y.data], expected);
  assert.equal(session.executionProvider, "wasm");
  assert.equal(asked.filter((file) => file === "kernels/a.wasm").length, 1);
});

test("a lost GPU without another provider is an error", async () => {
  const gpu = fakeGpu(wgsl);
  gpuOf(gpu);
  serve();
  const session = await InferenceSession.create(base, { executionProviders: [{ name: "webgpu" }] });
  gpu.devices[0].gone = true;
  gpu.devices[0].lose({ reason: "unknown", message: "pulled out" });
  await assert.rejects(session.run({ x: x() }), { code: "gpu-lost" });
});

test("weights that are not those of the manifest are refused on the GPU too", async () => {
  gpuOf(fakeGpu(wgsl));
  serve({ change: (manifest) => (manifest.weights.sha256 = "0".repeat(64)) });
  await assert.rejects(InferenceSession.create(base, { executionProviders: ["webgpu"] }), /weights.bin .* its sha256 differs/);
});
