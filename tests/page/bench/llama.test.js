import assert from "node:assert/strict";
import { test } from "node:test";
import { createBuffers, makeWeights, streamWeights } from "../../../resources/bench/gpu/llama_weights.js";
import { fastest, refused } from "../../../resources/bench/gpu/variants.js";

/** A GPU whose dispatches take the microseconds that their pipeline's code says. */
function slowGpu() {
  let clock = 0n;
  const stamps = new BigInt64Array(2);
  const gpu = {
    limits: { maxComputeInvocationsPerWorkgroup: 256 },
    features: new Set(["subgroups"]),
    info: { language_features: ["packed_4x8_integer_dot_product"] },
    timestamps: { available: true, quantum_ns: 100 },
    waits: 0,
    buffers: [],
    dispatched: [],
    pipeline: async ({ code }) => {
      if (code === "broken") throw new Error("The WGSL does not compile: line 1.");
      return { code, ms: 1 };
    },
    createBuffer: (nbytes, label) => {
      const buffer = { nbytes, label, bytes: new Uint8Array(nbytes) };
      gpu.buffers.push(buffer);
      return buffer;
    },
    destroyBuffer: () => {},
    write: (buffer, offset, bytes) => buffer.bytes.set(bytes, offset),
    encode: (commands) => {
      for (const c of commands)
        if (c.op === "stamp") stamps[c.index] = clock;
        else {
          gpu.dispatched.push(c);
          clock += BigInt(c.pipeline.code ?? 0) * 1000n;
        }
    },
    readStamps: async () => stamps.slice(),
    done: async () => void gpu.waits++,
  };
  return gpu;
}

const variant = (code, threads = 64, requires = []) => ({ setting: `of ${code}`, threads, requires, dispatch: { code, bindings: [], workgroups: [1, 1, 1] } });
const dispatches = ({ pipeline }) => [1, 2].map(() => ({ op: "dispatch", pipeline }));

test("the fastest setting is kept; what does not run is told", async () => {
  const gpu = slowGpu();
  const all = [variant("30"), variant("10"), variant("broken"), variant("5", 512), variant("20"), variant("7", 64, ["shader-f16"])];
  const { best, tried } = await fastest(gpu, all, dispatches);
  assert.equal(best.variant.setting, "of 10");
  assert.deepEqual(
    tried.map((t) => (t.error ? t.error : t.us[0])),
    [30, 10, "The WGSL does not compile: line 1.", "512 threads are more than the adapter's limit", 20, "the adapter has no shader-f16"],
  );
});

test("one setting is compiled and not timed", async () => {
  const gpu = slowGpu();
  const { tried } = await fastest(gpu, [variant("30")], dispatches);
  assert.deepEqual(tried[0].us, []);
  assert.equal(gpu.dispatched.length, 0);
});

test("when nothing runs the first reason is told", async () => {
  await assert.rejects(fastest(slowGpu(), [variant("broken")], dispatches), /No setting runs here: The WGSL does not compile/);
});

test("features of the language are looked for among those of the language", () => {
  const gpu = slowGpu();
  assert.equal(refused(gpu, variant("1", 64, ["subgroups", "wgsl:packed_4x8_integer_dot_product"])), "");
  assert.match(refused(gpu, variant("1", 64, ["wgsl:subgroups"])), /no wgsl:subgroups/);
});

const config = { context: 2, head: 4, theta: 100 };
const weight = (name, nbytes, offset, seed) => ({ name, nbytes, kind: "words", seed, exponent: 0, offset });
const MIB = 2 ** 20;

test("positions turn by their angles", () => {
  const plan = { config, buffers: [{ name: "rope", nbytes: 32, kind: "rope", seed: 0 }] };
  const found = new Float32Array(createBuffers(slowGpu(), plan).get("rope").bytes.buffer);
  const wanted = [1, 0, 1, 0, Math.cos(1), Math.sin(1), Math.cos(0.1), Math.sin(0.1)];
  wanted.forEach((value, i) => assert.ok(Math.abs(found[i] - value) < 1e-7));
});

test("weights come in ranges of one chunk, in order", async (t) => {
  const gpu = slowGpu();
  const buffers = new Map([
    ["a", gpu.createBuffer(40 * MIB, "a")],
    ["b", gpu.createBuffer(8, "b")],
  ]);
  const plan = { buffers: [weight("a", 40 * MIB, 0, 1), weight("b", 8, 40 * MIB, 2), weight("state", 4, -1, 0)] };
  const asked = [];
  t.mock.method(globalThis, "fetch", async (_, { headers }) => {
    const [first, last] = /bytes=(\d+)-(\d+)/.exec(headers.Range).slice(1).map(Number);
    asked.push([first, last]);
    return { status: 206, arrayBuffer: async () => new Uint8Array(last - first + 1).fill(asked.length).buffer };
  });
  await streamWeights(gpu, plan, buffers, "weights.bin");
  assert.deepEqual(asked, [
    [0, 32 * MIB - 1],
    [32 * MIB, 40 * MIB - 1],
    [40 * MIB, 40 * MIB + 7],
  ]);
  assert.deepEqual([buffers.get("a").bytes[32 * MIB - 1], buffers.get("a").bytes[32 * MIB], buffers.get("b").bytes[7]], [1, 2, 3]);
});

test("a server without ranges and a file that is too short are told", async (t) => {
  const gpu = slowGpu();
  const buffers = new Map([["a", gpu.createBuffer(8, "a")]]);
  const plan = { buffers: [weight("a", 8, 0, 1)] };
  const answer = { status: 200, arrayBuffer: async () => new ArrayBuffer(4) };
  t.mock.method(globalThis, "fetch", async () => answer);
  await assert.rejects(streamWeights(gpu, plan, buffers, "weights.bin"), /not served in ranges \(200\)/);
  answer.status = 206;
  await assert.rejects(streamWeights(gpu, plan, buffers, "weights.bin"), /ends before a/);
});

test("each seeded buffer is filled once, with rows enough for its words", async () => {
  const gpu = slowGpu();
  const plan = {
    fill: { grid_x: 2, threads: 4, kinds: { words: { code: "1" } } },
    buffers: [weight("a", 4 * 17, 0, 7), weight("state", 4, -1, 0)],
  };
  await makeWeights(gpu, plan, new Map([["a", gpu.createBuffer(4 * 17, "a")]]));
  assert.equal(gpu.dispatched.length, 1);
  const [{ workgroups, bindings }] = gpu.dispatched;
  assert.deepEqual(workgroups, [2, 3, 1]);
  assert.deepEqual([...new Int32Array(bindings[0].buffer.bytes.buffer)], [17, 7, 0, 0]);
});
