import assert from "node:assert/strict";
import { test } from "node:test";
import { fastest, refused } from "../../../resources/bench/gpu/variants.js";

/** A GPU whose dispatches take the microseconds that their pipeline's code says, three times as many behind a readback until it is `ready`. */
function slowGpu() {
  let clock = 0n;
  let slower = 1;
  const stamps = new BigInt64Array(2);
  const gpu = {
    limits: { maxComputeInvocationsPerWorkgroup: 256 },
    features: new Set(["subgroups"]),
    info: { language_features: ["packed_4x8_integer_dot_product"] },
    timestamps: { available: true, quantum_ns: 100 },
    dispatched: [],
    pipeline: async ({ code }) => {
      if (code === "broken") throw new Error("The WGSL does not compile: line 1.");
      return { code, ms: 1 };
    },
    encode: (commands) => {
      for (const c of commands)
        if (c.op === "stamp") stamps[c.index] = clock;
        else {
          gpu.dispatched.push(c);
          clock += BigInt(slower * (c.pipeline.code ?? 0)) * 1000n;
        }
    },
    readStamps: async () => {
      slower = 3;
      return stamps.slice();
    },
    ready: async () => {
      slower = 1;
    },
    done: async () => {},
  };
  return gpu;
}

const variant = (code, threads = 64, requires = []) => ({ setting: `of ${code}`, threads, requires, dispatch: { code, bindings: [], workgroups: [1, 1, 1] } });
const dispatches = ({ pipeline }) => [1, 2].map(() => ({ op: "dispatch", pipeline }));

test("the fastest setting is kept; what does not run is told", async () => {
  const gpu = slowGpu();
  const all = [variant("30"), variant("10"), variant("broken"), variant("5", 512), variant("20"), variant("7", 64, ["shader-f16"])];
  const { best, tried } = await fastest(gpu, all, dispatches, gpu.ready);
  assert.equal(best.variant.setting, "of 10");
  assert.deepEqual(
    tried.map((t) => (t.error ? t.error : t.us[0])),
    [30, 10, "The WGSL does not compile: line 1.", "512 threads are more than the adapter's limit", 20, "the adapter has no shader-f16"],
  );
});

test("one setting is compiled and not timed", async () => {
  const gpu = slowGpu();
  const { tried } = await fastest(gpu, [variant("30")], dispatches, gpu.ready);
  assert.deepEqual(tried[0].us, []);
  assert.equal(gpu.dispatched.length, 0);
});

test("when nothing runs the first reason is told", async () => {
  await assert.rejects(fastest(slowGpu(), [variant("broken")], dispatches, async () => {}), /No setting runs here: The WGSL does not compile/);
});

test("features of the language are looked for among those of the language", () => {
  const gpu = slowGpu();
  assert.equal(refused(gpu, variant("1", 64, ["subgroups", "wgsl:packed_4x8_integer_dot_product"])), "");
  assert.match(refused(gpu, variant("1", 64, ["wgsl:subgroups"])), /no wgsl:subgroups/);
});
