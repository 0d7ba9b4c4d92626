/** bridge.js against a real hub: `node gpu_bridge_scenario.mjs ADDRESS ORIGIN`; silent when all is well. */
import assert from "node:assert/strict";
import { openGpu } from "../../../resources/studio/gpu/open.js";

const [, , bridge, origin] = process.argv;
const Socket = globalThis.WebSocket;
/** A browser sends the page's origin by itself. */
globalThis.WebSocket = class extends Socket {
  constructor(address) {
    super(address, { headers: { origin } });
  }
};

const code = `@group(0) @binding(0) var<storage, read> a: array<f32>;
@group(0) @binding(1) var<storage, read_write> b: array<f32>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
  if (id.x < arrayLength(&b)) { b[id.x] = 2 * a[id.x] + 1; }
}`;
const spec = { code, entry: "main", access: ["read", "read_write"] };
const COUNT = 1000;
const NBYTES = 4 * COUNT;
const floats = (bytes) => new Float32Array(bytes.buffer);

async function ready() {
  const device = await openGpu({ implementation: "bridge", bridge });
  const [a, b] = [device.createBuffer(NBYTES, "a"), device.createBuffer(NBYTES, "b")];
  const pipeline = await device.pipeline(spec);
  device.write(a, 0, new Uint8Array(Float32Array.from({ length: COUNT }, (_, i) => i).buffer));
  const bindings = [a, b].map((buffer) => ({ buffer, offset: 0, size: NBYTES }));
  const dispatch = { op: "dispatch", pipeline, bindings, workgroups: [Math.ceil(COUNT / 64), 1, 1] };
  return { device, a, b, dispatch };
}

const { device, a, b, dispatch } = await ready();
assert.equal(device.info.implementation, "bridge");
assert.equal(device.info.is_fallback, true);
assert.ok(device.timestamps.available && device.timestamps.quantum_ns > 0);

// a readback, then a dispatch and a wait, none of which may drop another
device.encode([dispatch]);
const first = device.read(b, 0, NBYTES);
device.encode([{ op: "copy", from: b, fromOffset: 0, to: a, toOffset: 0, nbytes: NBYTES }, dispatch]);
await device.done();
const second = device.read(b, NBYTES - 4, 4);
assert.deepEqual([...floats(await first)], Array.from({ length: COUNT }, (_, i) => 2 * i + 1));
assert.deepEqual([...floats(await second)], [4 * 999 + 3]);

// time passes between two stamps
device.encode([{ op: "stamp", index: 0 }, ...Array(100).fill(dispatch), { op: "stamp", index: 1 }]);
const [begin, end] = await device.readStamps(2);
assert.ok(end > begin);
assert.equal(device.counters.bind_groups_made >= 1, true);
assert.ok(device.counters.bind_groups_hit >= 100);

// what does not compile, and what fails on the GPU, is told; the device goes on
await assert.rejects(device.pipeline({ ...spec, code: code.replace("2 *", "bogus *") }), (e) => e.code === "gpu-kernel" && /bogus/.test(e.error));

// a lost device rejects all that waits; the next one knows nothing of it and is right
for (let round = 0; round < 2; round++) {
  const { device, b, dispatch } = await ready();
  device.encode([dispatch]);
  if (round < 1) {
    device.lose();
    await assert.rejects(device.read(b, 0, 4), (e) => e.code === "gpu-lost");
    assert.equal((await device.lost).reason, "unknown");
  } else {
    assert.equal(floats(await device.read(b, 4, 4))[0], 3);
    device.destroy();
    assert.equal((await device.lost).reason, "destroyed");
  }
}
device.destroy();
