import assert from "node:assert/strict";
import { test } from "node:test";
import { openNative } from "../../../resources/engine/gpu/native/device.js";
import { peakMs } from "../../../resources/studio/gpu/probe.js";
import { fakeGpu } from "../fake_gpu.js";
import { OwnClock } from "../clock.js";

performance.now = new OwnClock(1).now;

/** Ms of a peak kernel of 2048 workgroups each of whose runs takes a ms, and how many ran of them. */
async function peak(description) {
  const ran = new Set();
  const run = Object.assign((_, [x]) => ran.add(x), { ns: 1_000_000n });
  const gpu = fakeGpu({ run });
  const adapter = await gpu.requestAdapter();
  gpu.requestAdapter = async () => ({ ...adapter, info: { ...adapter.info, description } });
  const device = await openNative(gpu);
  const dispatch = { code: "run", entry: "main", workgroups: [2048, 1, 1], bindings: ["s0"], access: ["read_write"] };
  const document = { version: 1, scratch: [16], requires: [], dispatches: [dispatch] };
  const ms = await peakMs(device, new TextEncoder().encode(JSON.stringify(document)));
  return { ms, ran: [...ran] };
}

test("a GPU runs all workgroups of a peak kernel, a processor that plays one a sixteenth of them", async () => {
  assert.deepEqual(await peak("a GPU"), { ms: 1, ran: [2048] });
  assert.deepEqual(await peak("SwiftShader Device"), { ms: 16, ran: [128] });
});
