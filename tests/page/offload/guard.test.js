/** The guard without a GPU: states, counters, aliasing, what sticks. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { CHECK, difference, DONE, Guard, RUN } from "../../../resources/offload/guard.js";

const nest = {
  function: 1, name: "add", loop: 0, pattern: "element-wise", fingerprint: "f1", flops: 4, slots: { before: 1, after: 2 },
  inputs: [16], scalars: 0, outputs: [{ result: false, dims: [[4, 4]], formula: ["add", ["load", 0, 0, [0, 1]], ["const", 0x3f800000]] }], workspaces: [], terms: 1, rounding: 0, alone: null,
  apart: [{ output: 0, input: 0, same: true }], kernel: {},
};
const plan = /** @type {any} */ ({ version: 3, hooks: "", nests: [nest] });
const price = { upload: 1, dispatch: 1, readback: 1, total: 3 };

/** @param {object} [options] */
function made(options) {
  const memory = new ArrayBuffer(1024);
  const clock = { ms: 0 };
  const guard = new Guard(plan, () => memory, { now: () => clock.ms, random: () => 0.9, ...options });
  guard.opened({ key: "gpu", floor: () => 2 });
  const outputs = () => [new Uint8Array(Float32Array.of(1, 2, 3, 4).buffer)];
  /** The loop itself, which takes some ms. @param {number} number @param {number} ms @param {number[]} values */
  const loop = (number, ms, values = [1, 2, 3, 4]) => {
    new Float32Array(memory, 64, 4).set(values);
    clock.ms += ms;
    guard.leave(number, []);
  };
  return { guard, memory, outputs, loop };
}

test("first timed, then checked, then on the GPU", () => {
  const { guard, outputs, loop, memory } = made();
  assert.equal(guard.enter(0, [0, 64]).mode, CHECK);
  loop(0, 10);
  const second = guard.enter(0, [0, 64]);
  assert.equal(guard.ran(/** @type {any} */ (second.job), { outputs: outputs(), tried: [], price }), CHECK);
  loop(0, 9);
  const third = guard.enter(0, [0, 128]);
  assert.equal(guard.ran(/** @type {any} */ (third.job), { outputs: outputs(), tried: [], price }), DONE);
  assert.deepEqual([...new Float32Array(memory, 128, 4)], [1, 2, 3, 4]);
  assert.match(guard.counters.text(), /offload_success_total 1\n/);
});

test("a loop that costs less than its transfers stays, and says so", () => {
  const { guard, loop } = made();
  guard.enter(0, [0, 64]);
  loop(0, 0.4);
  assert.equal(guard.enter(0, [0, 64]).mode, RUN);
  assert.equal(guard.status[0].text, "transfers alone cost 2.000 ms, the loop 0.400 ms: stays");
  assert.match(guard.counters.text(), /offload_fallback_total\{reason="price"\} 1/);
});

test("a kernel that differs is never tried again, in later sessions neither", () => {
  const remembered = new Map();
  const { guard, outputs, loop } = made({ remembered, always: true });
  const { job } = guard.enter(0, [0, 64]);
  assert.equal(guard.ran(/** @type {any} */ (job), { outputs: outputs(), tried: [], price }), CHECK);
  loop(0, 9, [1, 2, 3, 4.1]);
  assert.equal(guard.enter(0, [0, 64]).mode, RUN);
  assert.equal(guard.status[0].reason, "numerical-divergence");
  assert.deepEqual([...remembered], [["f1|gpu", "numerical-divergence"]]);
  assert.equal(made({ remembered }).guard.status[0].state, "off");
});

test("places that overlap, and those outside of memory, run as they are", () => {
  const { guard } = made({ always: true });
  assert.deepEqual(guard.enter(0, [0, 8]), { mode: RUN, job: null });
  assert.deepEqual(guard.enter(0, [0, 1020]), { mode: RUN, job: null });
  assert.deepEqual(guard.counters.json().fallback, { aliasing: 1, bounds: 1 });
  assert.ok(guard.enter(0, [64, 64]).job, "one place is allowed where each point reads its own");
});

test("a lost device is a reason until there is another, which is checked anew", () => {
  const { guard } = made({ always: true });
  guard.status[0].state = "on";
  const { job } = guard.enter(0, [0, 64]);
  assert.equal(guard.failed(/** @type {any} */ (job), { code: "gpu-lost", message: "gone" }), RUN);
  assert.equal(guard.enter(0, [0, 64]).mode, RUN);
  guard.opened({ key: "gpu", floor: () => 0 });
  assert.equal(guard.status[0].state, "check");
  assert.deepEqual(guard.counters.json().fallback, { "device-lost": 2 });
});

test("rounding is no difference, a missing term is one", () => {
  const sums = Float32Array.from({ length: 64 }, (_, i) => Math.sin(i) * 30);
  const rounded = sums.map((x) => x * (1 + 2 ** -22));
  const never = () => false;
  assert.equal(difference(rounded, sums, { terms: 1024 }, never), "");
  const missing = sums.map((x, i) => (i === 7 ? x + 0.5 : x));
  assert.match(difference(missing, sums, { terms: 1024 }, never), /^element 7 /);
  assert.equal(difference(Float32Array.of(NaN, 1), Float32Array.of(NaN, 1), { terms: 1 }, never), "");
});
